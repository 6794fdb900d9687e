import { loadConfig } from '../platform/config.ts';
import { runMain } from '../platform/run-main.ts';
import { optionsFromConfig } from '../platform/service.ts';
import { cartsShape } from './config.ts';
import { startCarts } from './start.ts';

await runMain('carts', async () => {
  const config = loadConfig(cartsShape);
  return startCarts(optionsFromConfig(config));
});
