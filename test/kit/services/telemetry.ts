import { createLogger, type Logger } from '../../../services/platform/telemetry/log.ts';
import { startTelemetry, type Telemetry } from '../../../services/platform/telemetry/telemetry.ts';

/** A logger without output. */
export function silentLogger(): Logger {
  return createLogger({ service: 'test', level: 'silent' });
}

/** Telemetry on a free port. The caller stops it. */
export function testTelemetry(): Promise<Telemetry> {
  return startTelemetry({ service: 'test', metricsPort: 0 });
}
