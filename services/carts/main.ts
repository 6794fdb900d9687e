import { loadConfig } from '../platform/process/config.ts';
import { runMain } from '../platform/process/run-main.ts';
import { cartsShape } from './config.ts';
import { startCarts } from './service.ts';

await runMain('carts', async () => startCarts(loadConfig(cartsShape)));
