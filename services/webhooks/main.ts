import { loadConfig } from '../platform/config.ts';
import { runMain } from '../platform/run-main.ts';
import { refuseInProduction, webhooksShape } from './config.ts';
import { startWebhooks } from './start.ts';

await runMain('webhooks', async () => {
  const config = loadConfig(webhooksShape);
  refuseInProduction(config);
  return startWebhooks(config);
});
