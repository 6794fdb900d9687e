import { loadConfig } from '../platform/config.ts';
import { runMain } from '../platform/run-main.ts';
import { optionsFromConfig } from '../platform/service.ts';
import { destinationsShape } from './config.ts';
import { startDestinations } from './start.ts';

await runMain('destinations', async () => {
  const config = loadConfig(destinationsShape);
  return startDestinations(optionsFromConfig(config));
});
