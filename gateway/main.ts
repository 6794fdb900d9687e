import { runMain } from '../services/platform/process/run-main.ts';
import { loadGatewayConfig } from './config.ts';
import { startGateway } from './start.ts';

await runMain('gateway', () => startGateway(loadGatewayConfig()));
