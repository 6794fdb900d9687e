import { loadConfig } from '../platform/config.ts';
import { runMain } from '../platform/run-main.ts';
import { dispositionsShape } from './config.ts';
import { startDispositions } from './start.ts';

await runMain('dispositions', async () => startDispositions(loadConfig(dispositionsShape)));
