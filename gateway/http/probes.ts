import type { RequestHandler } from 'express';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { schemaState } from '../../services/platform/postgres/schema-state.ts';
import { databaseProbe } from '../../services/platform/process/health.ts';
import { within } from '../../services/platform/process/within.ts';

export interface Readiness {
  readonly ready: boolean;
  /** The state of each part, in a word or a line. */
  readonly parts: Readonly<Record<string, string>>;
}

/**
 * The phase of the gateway. A new pod is not ready while it connects to the services for the first time, because
 * network policies may not have its address yet. Its calls could fail, while those of other pods succeed.
 */
export type Phase = 'connecting to the services' | 'running' | 'stopping';

/** The state of the schema until it is read for the first time. */
const UNKNOWN = 'unknown';
/** Time limit of each of two checks of the database. The kubelet waits 3 s for the probe. Milliseconds. */
const TIMEOUT_MS = 400;

/**
 * Creates the check whether the gateway is ready. It is ready when it runs (see {@link Phase}) and its schema fits the
 * code. If the database has been unavailable since the start, so that nobody could read the schema, the gateway is
 * ready too. Requests then get 503 with `Retry-After`; without any ready gateway, callers would get no response at all.
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
