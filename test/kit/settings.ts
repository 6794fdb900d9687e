import type { z } from 'zod';
import { loadConfig, type Settings } from '../../services/platform/process/config.ts';
import { newKeyringText } from '../../services/platform/security/keyring.ts';

/** The keyring of the services under test. */
export const EVENT_KEYRING = newKeyringText();
export const SERVICE_TOKEN = 't'.repeat(32);

/** Settings of a process under test, parsed by its own schema: free ports, few logs, no broker. */
export function testSettings<Shape extends z.ZodRawShape>(
  shape: Shape,
  env: Readonly<Record<string, string>>,
): Settings<Shape> {
  return loadConfig(shape, {
    PORT: '0',
    METRICS_PORT: '0',
    LOG_LEVEL: process.env.TEST_LOG_LEVEL ?? 'silent',
    KAFKA_BROKERS: 'none:1',
    EVENT_KEYRING,
    SERVICE_TOKEN,
    ...env,
  });
}
