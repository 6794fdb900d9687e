import { loadConfig } from '../platform/process/config.ts';
import { runMain } from '../platform/process/run-main.ts';
import { fraudShape } from './config.ts';
import { startFraud } from './service.ts';

await runMain('fraud', async () => startFraud(loadConfig(fraudShape)));
