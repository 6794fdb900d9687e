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

/**
 * While a new pod connects to the services for the first time, network policies may not know its address yet. Its calls
 * would fail while other pods can answer.
 */
export type Phase = 'connecting to the services' | 'running' | 'stopping';

/** The state of the schema before it was read. */
const UNKNOWN = 'unknown';
/** The kubelet waits one second for a probe. Milliseconds. */
const TIMEOUT_MS = 400;

/**
 * Returns whether the gateway is ready: it is not stopping, it does not connect its services for the first time, and its
 * schema fits the code. If the schema was never read, the gateway is ready as long as the database is unavailable: then
 * requests get 503 with `Retry-After`, but without a ready gateway callers would get no response at all.
 */
export function createReadiness(db: Queryable, phase: () => Phase): () => Promise<Readiness> {
  const probe = databaseProbe(db);
  const isDatabaseAvailable = async (): Promise<boolean> => {
    let isAvailable = false;
    const probed = probe().then((result) => {
      isAvailable = result;
    });
    await within(TIMEOUT_MS, probed);
    return isAvailable;
  };
  let schema = UNKNOWN;
  const checkSchema = async (): Promise<void> => {
    const { state, detail } = await schemaState(db, 'gateway');
    schema = state === 'fits' ? state : detail;
  };
  return async () => {
    const current = phase();
    if (current !== 'running') return { ready: false, parts: { gateway: current } };
    const database = await isDatabaseAvailable();
    // A schema that fits is not read again: each migration also works with the code that runs while it is applied.
    if (database && schema !== 'fits') await within(TIMEOUT_MS, checkSchema()).catch(() => false);
    const ready = schema === 'fits' || (schema === UNKNOWN && !database);
    return { ready, parts: { database: database ? 'ok' : 'does not answer', schema } };
  };
}

/** `GET /livez`: 200 while the process runs. Does not check dependencies. */
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
