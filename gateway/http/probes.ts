import type { RequestHandler } from 'express';
import { databaseProbe } from '../../services/platform/health.ts';
import { schemaState } from '../../services/platform/migrations.ts';
import type { Queryable } from '../../services/platform/postgres.ts';
import { within } from '../../services/platform/within.ts';

export interface Readiness {
  readonly ready: boolean;
  /** The state of each part, in a word or a line. */
  readonly parts: Readonly<Record<string, string>>;
}

const TIMEOUT_MS = 2_000;

/**
 * Whether the gateway is ready: its database answers and the schema fits the code. The services are not checked: an
 * unavailable service causes 503 only for its own operations.
 */
export function createReadiness(
  db: Queryable,
  isStopping: () => boolean,
): () => Promise<Readiness> {
  const answers = databaseProbe(db);
  let schema = 'unknown';
  const checkSchema = async (): Promise<void> => {
    const { state, detail } = await schemaState(db, 'gateway');
    schema = state === 'current' ? state : detail;
  };
  return async () => {
    if (isStopping()) return { ready: false, parts: { gateway: 'stopping' } };
    const database = await answers();
    // A schema that fits once fits while this process runs, because migrations are compatible with older code.
    if (database && schema !== 'current')
      await within(TIMEOUT_MS, checkSchema()).catch(() => false);
    const ready = database && schema === 'current';
    return { ready, parts: { database: database ? 'ok' : 'does not answer', schema } };
  };
}

/** `GET /livez`: the process runs. Its dependencies are not checked. */
export const livez: RequestHandler = (_req, res) => {
  res.setHeader('Cache-Control', 'no-store').json({ status: 'ok' });
};

/** `GET /readyz`: 200 or 503, with the state of each part. */
export function readyz(readiness: () => Promise<Readiness>): RequestHandler {
  return async (_req, res) => {
    const { ready, parts } = await readiness();
    res
      .status(ready ? 200 : 503)
      .setHeader('Cache-Control', 'no-store')
      .json({ status: ready ? 'ok' : 'unready', parts });
  };
}
