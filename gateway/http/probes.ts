import type { RequestHandler } from 'express';
import { databaseProbe } from '../../services/platform/health.ts';
import { schemaState } from '../../services/platform/migrations.ts';
import type { Queryable } from '../../services/platform/postgres.ts';
import { within } from '../../services/platform/within.ts';

export interface Readiness {
  readonly ready: boolean;
  /** What each part says of itself, in a word or a line. */
  readonly parts: Readonly<Record<string, string>>;
}

const PATIENCE_MS = 2_000;

/**
 * Whether the gateway can do its work: its own database answers and its schema fits the code. The
 * services are not asked: one that is away is a 503 of its operations, not of all.
 */
export function createReadiness(
  db: Queryable,
  isStopping: () => boolean,
): () => Promise<Readiness> {
  const answers = databaseProbe(db);
  let schema = 'unknown';
  const lookAtSchema = async (): Promise<void> => {
    const { state, detail } = await schemaState(db, 'gateway');
    schema = state === 'current' ? state : detail;
  };
  return async () => {
    if (isStopping()) return { ready: false, parts: { gateway: 'stopping' } };
    const database = await answers();
    // A schema that fits stays so while this process lives: migrations work with the code before them.
    if (database && schema !== 'current')
      await within(PATIENCE_MS, lookAtSchema()).catch(() => false);
    const ready = database && schema === 'current';
    return { ready, parts: { database: database ? 'ok' : 'does not answer', schema } };
  };
}

/** `GET /livez`: the process runs, whatever it depends on. */
export const livez: RequestHandler = (_req, res) => {
  res.setHeader('Cache-Control', 'no-store').json({ status: 'ok' });
};

/** `GET /readyz`: 200 or 503, and the parts that decide. */
export function readyz(readiness: () => Promise<Readiness>): RequestHandler {
  return async (_req, res) => {
    const { ready, parts } = await readiness();
    res
      .status(ready ? 200 : 503)
      .setHeader('Cache-Control', 'no-store')
      .json({ status: ready ? 'ok' : 'unready', parts });
  };
}
