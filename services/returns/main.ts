import { loadConfig } from '../platform/config.ts';
import { runMain } from '../platform/run-main.ts';
import { optionsFromConfig } from '../platform/service.ts';
import { returnsShape } from './config.ts';
import { startReturns } from './start.ts';

await runMain('returns', async () => {
  const config = loadConfig(returnsShape);
  return startReturns({
    ...optionsFromConfig(config),
    destinationsTarget: config.DESTINATIONS_TARGET,
    fraudTarget: config.FRAUD_TARGET,
    onlySandboxShops: config.NODE_ENV === 'production' && config.COMMERCE_PROVIDER === 'embedded',
  });
});
