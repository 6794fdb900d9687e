import { Code, ConnectError } from '@connectrpc/connect';
import type pg from 'pg';
import { presentCaller } from './caller.ts';
import { overloaded } from './errors.ts';
import { NoPermit, Permits, type Release } from './permits.ts';

/** Lower bound for the number of callers that may wait for a connection: 128 calls of each kind in flight. */
const MAX_WAITING = 256;
/** As long as `createPool` waits for a connection. Milliseconds. */
const WAIT_MS = 5_000;
/** The part of the pool that transactions may use. Reads have the rest while transactions wait for locks. */
const TRANSACTIONS = 0.75;

/** Most statements end soon after their caller left. Milliseconds. */
const GRACE_MS = 100;
/** A cancellation between two statements has no effect, so it is repeated after this time. Milliseconds. */
const AGAIN_MS = 500;

/** The permits of pools that serve callers. */
const bounded = new WeakMap<pg.Pool, { connections: Permits; transactions: Permits }>();

/**
 * Makes a pool serve callers. A caller that has left gets no connection and stops waiting for one, and the statement on
 * its connection is cancelled. The number of waiting callers is limited, and so is the number of connections for
 * transactions.
 *
 * @param background sends the cancellations. Callers cannot use up its connections.
 * @param calls most calls in flight at once. All of them may wait.
 */
export function serveCallers(pool: pg.Pool, background: pg.Pool, calls = MAX_WAITING): pg.Pool {
  const size = pool.options.max;
  const bounds = { maxWaiting: Math.max(calls, MAX_WAITING), waitMs: WAIT_MS };
  const connections = new Permits({ size, ...bounds });
  const transactions = new Permits({ size: Math.ceil(size * TRANSACTIONS), ...bounds });
  bounded.set(pool, { connections, transactions });
  const plain: () => Promise<pg.PoolClient> = pool.connect.bind(pool);

  const connect = async (): Promise<pg.PoolClient> => {
    const caller = presentCaller();
    const permit = await takeFor(caller, connections);
    try {
      return lend(await plain(), { caller, permit, background });
    } catch (error) {
      permit();
      throw error;
    }
  };
  // `pool.query` calls it with a callback.
  const either = (callback?: Callback) => {
    const connected = connect();
    if (!callback) return connected;
    connected.then(
      (client) => callback(undefined, client, (destroy) => client.release(destroy)),
      (error) => callback(error, undefined, () => {}),
    );
    return undefined;
  };
  return Object.assign(pool, { connect: either });
}

type Callback = (
  error: Error | undefined,
  client: pg.PoolClient | undefined,
  done: (destroy?: Error | boolean) => void,
) => void;

/** Takes a permit for one transaction. Pools that do not serve callers need none. */
export async function takeTransaction(pool: pg.Pool): Promise<Release> {
  const bounds = bounded.get(pool);
  return bounds ? takeFor(presentCaller(), bounds.transactions) : () => {};
}

/** How many callers wait for a connection of the pool, or for a transaction. */
export function waitingFor(pool: pg.Pool): number {
  const bounds = bounded.get(pool);
  const waiting = bounds ? bounds.connections.waiting() + bounds.transactions.waiting() : 0;
  return waiting + pool.waitingCount;
}

async function takeFor(caller: AbortSignal | undefined, permits: Permits): Promise<Release> {
  if (caller?.aborted) throw callerLeft();
  try {
    return permits.tryTake() ?? (await permits.take({ signal: caller }));
  } catch (error) {
    if (caller?.aborted) throw callerLeft();
    throw error instanceof NoPermit ? overloaded() : error;
  }
}

/** The caller has left, so this error is not sent to it. */
function callerLeft(): ConnectError {
  return new ConnectError('the caller left', Code.Canceled);
}

/** Lends a connection to a caller until its release. Cancels the statement if the caller leaves first. */
function lend(
  client: pg.PoolClient,
  o: { caller: AbortSignal | undefined; permit: Release; background: pg.Pool },
): pg.PoolClient {
  const { caller, permit, background } = o;
  const release = client.release.bind(client);
  if (caller?.aborted) {
    release();
    throw callerLeft();
  }
  const processId: unknown = Reflect.get(client, 'processID');
  const sendCancel = () => background.query('select pg_cancel_backend($1)', [processId]);
  let cancelling: Promise<unknown> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isReleased = false;
  const cancel = (): void => {
    cancelling = sendCancel()
      .catch(() => {})
      .then(() => {
        if (!isReleased) timer = setTimeout(cancel, AGAIN_MS);
      });
  };
  const onLeave = (): void => {
    timer = setTimeout(cancel, GRACE_MS);
  };
  caller?.addEventListener('abort', onLeave, { once: true });

  client.release = (destroy) => {
    isReleased = true;
    caller?.removeEventListener('abort', onLeave);
    clearTimeout(timer);
    const giveBack = (): void => {
      release(destroy);
      permit();
    };
    // A pending cancellation must not reach the next user of the connection.
    if (cancelling !== undefined) void cancelling.then(giveBack);
    else giveBack();
  };
  return client;
}
