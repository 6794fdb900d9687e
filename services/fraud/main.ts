import { loadConfig } from '../platform/config.ts';
import { runMain } from '../platform/run-main.ts';
import { optionsFromConfig } from '../platform/service.ts';
import { fraudShape } from './config.ts';
import { startFraud } from './start.ts';

await runMain('fraud', async () => {
  const config = loadConfig(fraudShape);
  return startFraud({ ...optionsFromConfig(config), returnsTarget: config.RETURNS_TARGET });
});
