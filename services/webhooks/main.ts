import { loadConfig } from '../platform/process/config.ts';
import { runMain } from '../platform/process/run-main.ts';
import { checkProduction, webhooksShape } from './config.ts';
import { startWebhooks } from './start.ts';

await runMain('webhooks', async () => {
  const config = loadConfig(webhooksShape);
  checkProduction(config);
  return startWebhooks(config);
});
