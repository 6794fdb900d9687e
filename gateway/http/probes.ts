import type { RequestHandler } from 'express';
import { databaseProbe } from '../../services/platform/health.ts';
import type { Queryable } from '../../services/platform/postgres.ts';
import { schemaState } from '../../services/platform/schema-state.ts';
import { within } from '../../services/platform/within.ts';

export interface Readiness {
  readonly ready: boolean;
  /** The state of each part, in a word or a line. */
  readonly parts: Readonly<Record<string, string>>;
}

/** The state of a schema that was not read yet. */
const UNKNOWN = 'unknown';
/** The kubelet waits one second for a probe. Milliseconds. */
const TIMEOUT_MS = 400;

/**
 * Whether the gateway is ready: it is not stopping, and its schema fits the code as far as it could be read. An
 * unavailable database or service causes 503 with `Retry-After` for the requests that need it. Without a ready gateway
 * callers would get no answer at all.
 */
export function createReadiness(
  db: Queryable,
  isStopping: () => boolean,
): () => Promise<Readiness> {
  const probe = databaseProbe(db);
  const answers = async (): Promise<boolean> => {
    let isAnswering = false;
    const asked = probe().then((answer) => {
      isAnswering = answer;
    });
    await within(TIMEOUT_MS, asked);
    return isAnswering;
  };
  let schema = UNKNOWN;
  const checkSchema = async (): Promise<void> => {
    const { state, detail } = await schemaState(db, 'gateway');
    schema = state === 'fits' ? state : detail;
  };
  return async () => {
    if (isStopping()) return { ready: false, parts: { gateway: 'stopping' } };
    const database = await answers();
    // A schema that fits once fits while this process runs, because each migration says what it fits.
    if (database && schema !== 'fits') await within(TIMEOUT_MS, checkSchema()).catch(() => false);
    const ready = schema === 'fits' || (schema === UNKNOWN && !database);
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
