import { loadConfig } from '../platform/process/config.ts';
import { runMain } from '../platform/process/run-main.ts';
import { checkCombinations, returnsShape } from './config.ts';
import { startReturns } from './start.ts';

await runMain('returns', async () => {
  const config = loadConfig(returnsShape);
  checkCombinations(config);
  return startReturns(config);
});
