import { loadConfig } from '../platform/process/config.ts';
import { runMain } from '../platform/process/run-main.ts';
import { destinationsShape } from './config.ts';
import { startDestinations } from './service.ts';

await runMain('destinations', async () => startDestinations(loadConfig(destinationsShape)));
