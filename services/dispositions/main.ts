import { loadConfig } from '../platform/process/config.ts';
import { runMain } from '../platform/process/run-main.ts';
import { dispositionsShape } from './config.ts';
import { startDispositions } from './service.ts';

await runMain('dispositions', async () => startDispositions(loadConfig(dispositionsShape)));
