import { loadConfig } from '../platform/config.ts';
import { runMain } from '../platform/run-main.ts';
import { destinationsShape } from './config.ts';
import { startDestinations } from './start.ts';

await runMain('destinations', async () => startDestinations(loadConfig(destinationsShape)));
