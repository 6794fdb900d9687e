import { newEventSignatures } from '../../services/platform/bus/event-signature.ts';
import { createInProcessBus } from '../../services/platform/bus/in-process.ts';
import { staticIdentity } from '../../services/platform/identity.ts';
import { startReturns } from '../../services/returns/start.ts';

// The returns service without Kafka, as a process of its own. It says where it listens.

const { DATABASE_URL = '', SERVICE_TOKEN = '' } = process.env;
const running = await startReturns({
  port: 0,
  metricsPort: 0,
  databaseUrl: DATABASE_URL,
  bus: createInProcessBus(),
  eventSignatures: newEventSignatures(),
  identity: staticIdentity(SERVICE_TOKEN),
  destinationsTarget: '127.0.0.1:1',
  fraudTarget: '127.0.0.1:1',
  logLevel: 'info',
});
process.once('SIGTERM', () => void running.stop());
