import { runMain } from '../services/platform/run-main.ts';
import { loadGatewayOptions } from './config.ts';
import { startGateway } from './start.ts';

await runMain('gateway', () => startGateway(loadGatewayOptions()));
