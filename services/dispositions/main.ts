import { loadConfig } from '../platform/config.ts';
import { runMain } from '../platform/run-main.ts';
import { optionsFromConfig } from '../platform/service.ts';
import { dispositionsShape } from './config.ts';
import { startDispositions } from './start.ts';

await runMain('dispositions', async () => {
  const config = loadConfig(dispositionsShape);
  return startDispositions({ ...optionsFromConfig(config), returnsTarget: config.RETURNS_TARGET });
});
