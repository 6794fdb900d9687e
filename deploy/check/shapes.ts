import { z } from 'zod';
import { postgresUrl, processShape } from '../../services/platform/config.ts';
import { SCHEMAS } from '../../services/platform/schemas.ts';
import { transportShape } from '../../services/platform/transport-security.ts';

const ROOT = new URL('../../', import.meta.url);

/** The migrator reads these by hand: it runs before there is anything to configure. */
const migratorShape = {
  DATABASE_URL: postgresUrl,
  NODE_ENV: processShape.NODE_ENV,
  ...transportShape,
  ...Object.fromEntries(
    SCHEMAS.map(({ name }) => [`DB_PASSWORD_${name.toUpperCase()}`, z.string().min(1)]),
  ),
};

/** The variables that a process reads, by the main file of its command: the `…Shape` of its config.ts. */
export async function shapeOf(mainFile: string): Promise<z.ZodRawShape> {
  if (mainFile === 'services/platform/migrate.ts') return migratorShape;
  const config = new URL(mainFile.replace(/main\.ts$/, 'config.ts'), ROOT);
  const module: Record<string, unknown> = await import(config.href);
  const [shape, ...others] = Object.keys(module).filter((name) => name.endsWith('Shape'));
  if (shape === undefined || others.length > 0) throw new Error(`${config.pathname}: which shape?`);
  return z.record(z.string(), z.instanceof(z.ZodType)).parse(module[shape]);
}
