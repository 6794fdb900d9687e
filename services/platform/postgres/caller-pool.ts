import { Code, ConnectError } from '@connectrpc/connect';
import type pg from 'pg';
import { NoPermit, Permits, type Release } from '../process/permits.ts';
import { currentCaller } from '../rpc/caller.ts';
import { overloaded } from '../values/errors.ts';

/** Minimum number of callers that may wait for a connection: 128 reads and 128 other calls. */
const MAX_WAITING = 256;
/** How long a caller waits for a connection. `createPool` waits as long. Milliseconds. */
const WAIT_MS = 5_000;
/** The part of the pool that transactions may use. The rest is for reads, also while transactions wait for locks. */
const TRANSACTION_SHARE = 0.75;

/**
 * After its caller has disconnected, a statement has this time to end before it is cancelled, because most statements
 * end soon. Milliseconds.
 */
const GRACE_MS = 100;
/**
 * A cancellation that arrives between two statements has no effect. So it is repeated after this time. Milliseconds.
 */
const CANCEL_AGAIN_MS = 500;

/** The permits of each pool that serves callers. */
const permitsOf = new WeakMap<pg.Pool, { connections: Permits; transactions: Permits }>();

/**
 * Makes a pool serve callers. A caller that has disconnected gets no connection and stops waiting for one, and a
 * statement that runs for it is cancelled. The number of waiting callers is limited. So is the number of connections
 * for transactions.
 *
 * @param background sends the cancellations, because callers cannot use up its connections.
 * @param calls maximum number of concurrent calls. All of them may wait.
 */
export function serveCallers(pool: pg.Pool, background: pg.Pool, calls = MAX_WAITING): pg.Pool {
  const size = pool.options.max;
  const bounds = { maxWaiting: Math.max(calls, MAX_WAITING), waitMs: WAIT_MS };
  const connections = new Permits({ size, ...bounds });
  const transactions = new Permits({ size: Math.ceil(size * TRANSACTION_SHARE), ...bounds });
  permitsOf.set(pool, { connections, transactions });
  const connectNow: () => Promise<pg.PoolClient> = pool.connect.bind(pool);

  const connect = async (): Promise<pg.PoolClient> => {
    const caller = currentCaller();
    const permit = await takeFor(caller, connections);
    try {
      return lend(await connectNow(), { caller, permit, background });
    } catch (error) {
      permit();
      throw error;
    }
  };
  // `pool.query` calls `connect` with a callback.
  const connectOrCall = (callback?: Callback) => {
    const connected = connect();
    if (!callback) return connected;
    connected.then(
      (client) => callback(undefined, client, (destroy) => client.release(destroy)),
      (error) => callback(error, undefined, () => {}),
    );
    return undefined;
  };
  return Object.assign(pool, { connect: connectOrCall });
}

type Callback = (
  error: Error | undefined,
  client: pg.PoolClient | undefined,
  done: (destroy?: Error | boolean) => void,
) => void;

/** Takes a permit for one transaction. A pool that does not serve callers needs no permit. */
export async function takeTransaction(pool: pg.Pool): Promise<Release> {
  const bounds = permitsOf.get(pool);
  return bounds ? takeFor(currentCaller(), bounds.transactions) : () => {};
}

/** Returns how many callers wait, for a connection of the pool or for a transaction. */
export function waitingFor(pool: pg.Pool): number {
  const bounds = permitsOf.get(pool);
  const waiting = bounds ? bounds.connections.waiting() + bounds.transactions.waiting() : 0;
  return waiting + pool.waitingCount;
}

async function takeFor(caller: AbortSignal | undefined, permits: Permits): Promise<Release> {
  if (caller?.aborted) throw callerDisconnected();
  try {
    return permits.tryTake() ?? (await permits.take({ signal: caller }));
  } catch (error) {
    if (caller?.aborted) throw callerDisconnected();
    throw error instanceof NoPermit ? overloaded() : error;
  }
}

/** The error that ends the work for a caller that disconnected. Nobody receives it. */
function callerDisconnected(): ConnectError {
  return new ConnectError('the caller disconnected', Code.Canceled);
}

/**
 * Gives a connection to a caller until the caller releases it. Cancels the statement when the caller disconnects first.
 */
function lend(
  client: pg.PoolClient,
  o: { caller: AbortSignal | undefined; permit: Release; background: pg.Pool },
): pg.PoolClient {
  const { caller, permit, background } = o;
  const release = client.release.bind(client);
  if (caller?.aborted) {
    release();
    throw callerDisconnected();
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
        if (!isReleased) timer = setTimeout(cancel, CANCEL_AGAIN_MS);
      });
  };
  const onDisconnect = (): void => {
    timer = setTimeout(cancel, GRACE_MS);
  };
  caller?.addEventListener('abort', onDisconnect, { once: true });

  client.release = (destroy) => {
    isReleased = true;
    caller?.removeEventListener('abort', onDisconnect);
    clearTimeout(timer);
    const returnToPool = (): void => {
      release(destroy);
      permit();
    };
    // Wait for a pending cancellation, because it must not reach the next user of the connection.
    if (cancelling !== undefined) void cancelling.then(returnToPool);
    else returnToPool();
  };
  return client;
}
