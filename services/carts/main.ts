import { loadConfig } from '../platform/config.ts';
import { runMain } from '../platform/run-main.ts';
import { cartsShape } from './config.ts';
import { startCarts } from './start.ts';

await runMain('carts', async () => startCarts(loadConfig(cartsShape)));
