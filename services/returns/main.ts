import { loadConfig } from '../platform/config.ts';
import { runMain } from '../platform/run-main.ts';
import { returnsShape } from './config.ts';
import { startReturns } from './start.ts';

await runMain('returns', async () => startReturns(loadConfig(returnsShape)));
