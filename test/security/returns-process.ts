import { createInProcessBus } from '../../services/platform/bus/in-process.ts';
import { loadConfig } from '../../services/platform/process/config.ts';
import { newKeyringText } from '../../services/platform/security/keyring.ts';
import { returnsShape } from '../../services/returns/config.ts';
import { startReturns } from '../../services/returns/start.ts';

// The returns service without Kafka, as a separate process. It logs its port.

const settings = loadConfig(returnsShape, {
  ...process.env,
  PORT: '0',
  METRICS_PORT: '0',
  KAFKA_BROKERS: 'none:1',
  EVENT_KEYRING: newKeyringText(),
  DESTINATIONS_TARGET: '127.0.0.1:1',
  FRAUD_TARGET: '127.0.0.1:1',
});
const running = await startReturns({ ...settings, bus: createInProcessBus() });
process.once('SIGTERM', () => void running.stop());
