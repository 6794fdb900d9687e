import { z } from 'zod';
import { kafkaSecurityShape } from '../../services/platform/bus/kafka-config.ts';
import { busShape, postgresUrl, processShape } from '../../services/platform/config.ts';
import { SCHEMAS } from '../../services/platform/schemas.ts';
import { transportShape } from '../../services/platform/transport-security.ts';

const ROOT = new URL('../../', import.meta.url);

/** The migrator has no config.ts. It reads these variables itself. */
const migratorShape = {
  DATABASE_URL: postgresUrl,
  NODE_ENV: processShape.NODE_ENV,
  ...transportShape,
  ...Object.fromEntries(
    SCHEMAS.map(({ name }) => [`DB_PASSWORD_${name.toUpperCase()}`, z.string().min(1)]),
  ),
};

/** The command that creates topics has no config.ts either. */
const topicsShape = {
  ...kafkaSecurityShape,
  ...transportShape,
  NODE_ENV: processShape.NODE_ENV,
  KAFKA_BROKERS: busShape.KAFKA_BROKERS,
  RETENTION_DAYS: busShape.RETENTION_DAYS,
};

/**
 * The variables that a process reads: the `…Shape` of the config.ts beside its main file.
 *
 * @param mainFile path from the root of the repository.
 * @throws Error when the config.ts does not export exactly one shape.
 */
export async function shapeOf(mainFile: string): Promise<z.ZodRawShape> {
  if (mainFile === 'services/platform/migrate.ts') return migratorShape;
  if (mainFile === 'services/platform/bus/topics.ts') return topicsShape;
  const config = new URL(mainFile.replace(/main\.ts$/, 'config.ts'), ROOT);
  const module: Record<string, unknown> = await import(config.href);
  const [shape, ...others] = Object.keys(module).filter((name) => name.endsWith('Shape'));
  if (shape === undefined || others.length > 0)
    throw new Error(`${config.pathname}: must export exactly one shape`);
  return z.record(z.string(), z.instanceof(z.ZodType)).parse(module[shape]);
}
