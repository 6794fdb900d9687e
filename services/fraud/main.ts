import { loadConfig } from '../platform/config.ts';
import { runMain } from '../platform/run-main.ts';
import { fraudShape } from './config.ts';
import { startFraud } from './start.ts';

await runMain('fraud', async () => startFraud(loadConfig(fraudShape)));
