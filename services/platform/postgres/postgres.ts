import pg from 'pg';
import { deadline } from '../process/deadlines.ts';
import { withoutCaller } from '../rpc/caller.ts';
import { takeTransaction } from './caller-pool.ts';
import { DatabaseClient } from './database-client.ts';
import { needsNewConnection } from './outage.ts';
import { type Member, memberOf, rejectMembers, StatementGroup } from './statement-group.ts';

/** The database as stores use it: a pool, or a connection inside a transaction. */
export type Queryable = Pick<pg.ClientBase, 'query'>;

const CONNECT_TIMEOUT_MS = deadline(5_000);
const STATEMENT_TIMEOUT_MS = deadline(30_000);
const IDLE_IN_TRANSACTION_TIMEOUT_MS = deadline(30_000);
/** How long an idle connection stays open. A new one must log in and plan its statements again. Milliseconds. */
const IDLE_MS = 5 * 60_000;
/** How much longer than the server the client waits for a statement, in case the server hangs. Milliseconds. */
const CLIENT_GRACE_MS = 2_000;

export interface PoolOptions {
  /** Maximum number of connections; by default 10, as in pg. */
  readonly max?: number;
  readonly applicationName?: string;
  readonly statementTimeoutMs?: number;
  /** How long a statement waits for a lock. By default it may wait as long as it may run. */
  readonly lockTimeoutMs?: number;
  /** How long a transaction may have no statement before the server ends it; 30 s by default. */
  readonly idleInTransactionMs?: number;
  /** Called with every error that the server reports on a connection of this pool. */
  readonly onServerError?: (error: pg.DatabaseError) => void;
}

/**
 * Creates a pool whose int8 columns arrive as bigint, numeric and date as text, timestamptz as Date. The parsers belong
 * to this pool. None is registered globally.
 *
 * Every wait is limited: 5 s for a connection, and the statement timeout for a statement (30 s by default). The client
 * waits 2 s longer than the server, in case the server hangs. Lost connections leave the pool.
 */
export function createPool(url: string, o: PoolOptions = {}): pg.Pool {
  const statementTimeoutMs = o.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS;
  const pool = new pg.Pool({
    connectionString: url,
    ...(o.max !== undefined && { max: o.max }),
    ...(o.applicationName !== undefined && { application_name: o.applicationName }),
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: statementTimeoutMs,
    ...(o.lockTimeoutMs !== undefined && { lock_timeout: o.lockTimeoutMs }),
    idle_in_transaction_session_timeout: o.idleInTransactionMs ?? IDLE_IN_TRANSACTION_TIMEOUT_MS,
    query_timeout: statementTimeoutMs + CLIENT_GRACE_MS,
    keepAlive: true,
    idleTimeoutMillis: IDLE_MS,
    types: TYPES,
    Client: o.onServerError ? clientReporting(o.onServerError) : DatabaseClient,
  });
  return withListener(pool);
}

/** Returns a client class that reports errors of the server, also those of the login. */
function clientReporting(onServerError: (error: pg.DatabaseError) => void): new () => pg.Client {
  return class extends DatabaseClient {
    constructor(config?: string | pg.ClientConfig) {
      super(config);
      this.connection.on('errorMessage', onServerError);
    }
  };
}

/**
 * Opens a second pool to the database of the first, with its own session settings. It is for work that must not wait
 * for the connections of other work. Settings that the first pool sends at the start of a connection, such as
 * `lock_timeout`, override these.
 */
export function openSecondPool(
  pool: pg.Pool,
  o: { max: number; settings: Readonly<Record<string, string>> },
): pg.Pool {
  const settings = Object.entries(o.settings).map(([name, value]) => `-c ${name}=${value}`);
  return withListener(new pg.Pool({ ...pool.options, max: o.max, options: settings.join(' ') }));
}

function withListener(pool: pg.Pool): pg.Pool {
  // When an idle connection is lost, the pool replaces it. Without this listener, the error would end the process.
  pool.on('error', () => {});
  return pool;
}

const INT8_ARRAY = 1016;
const TYPES: pg.CustomTypesConfig = { getTypeParser: parserOf };

function parserOf(oid: number, format?: 'text' | 'binary') {
  if (format === 'binary') return pg.types.getTypeParser(oid, 'binary');
  if (oid === pg.types.builtins.INT8) return BigInt;
  if (oid === INT8_ARRAY) return bigints;
  if (oid === pg.types.builtins.DATE) return String;
  return pg.types.getTypeParser(oid, 'text');
}

function bigints(text: string): (bigint | null)[] {
  const inside = text.slice(1, -1);
  if (inside === '') return [];
  return inside.split(',').map((item) => (item === 'NULL' ? null : BigInt(item)));
}

/** A transaction in progress on a connection. */
interface Transaction {
  /** Called after the commit. */
  readonly callbacks: ((pool: pg.Pool) => void)[];
  /** Sends statements in one message. `isLast` means that the commit is among them. */
  readonly send: (members: readonly Member[], isLast?: boolean) => void;
  /** The statements that {@link together} will send. */
  collected: Member[] | undefined;
  /** `new`: no statement was sent. `open`: some were sent. `committing`: the commit was sent. */
  state: 'new' | 'open' | 'committing';
}

/** Transactions that have not ended. */
const transactions = new WeakMap<Queryable, Transaction>();

/**
 * Calls `work` after the commit of the transaction, and never after a rollback. `work` must not throw. Returns false,
 * and never calls `work`, when `inTransaction` did not create the transaction.
 */
export function afterCommit(tx: Queryable, work: (pool: pg.Pool) => void): boolean {
  const callbacks = transactions.get(tx)?.callbacks;
  callbacks?.push(work);
  return callbacks !== undefined;
}

/**
 * Sends in one round trip all statements that `work` starts synchronously. Each statement sees the effects of those
 * before it. After a failure, the server does not run the others. Outside of a transaction, each statement is sent
 * alone.
 */
export function together<T>(tx: Queryable, work: () => Promise<T>): Promise<T> {
  const transaction = transactions.get(tx);
  if (!transaction || transaction.collected) return work();
  const { result, members } = collect(transaction, work);
  if (members.length > 0) transaction.send(members);
  return result;
}

/**
 * Does the same as {@link together}, and commits the transaction in the same round trip. Later statements are rejected.
 * Only a failed statement prevents the commit. If `work` can fail in another way, that part must run before this call.
 */
export async function committing<T>(tx: Queryable, work: () => Promise<T>): Promise<T> {
  const transaction = transactions.get(tx);
  if (!transaction || transaction.collected) return work();
  const { result, members } = collect(transaction, work);
  const commit = memberOf(['commit'], TYPES);
  transaction.send([...members, commit], true);
  const value = await result;
  await commit.result;
  return value;
}

function collect<T>(transaction: Transaction, work: () => Promise<T>) {
  const members: Member[] = [];
  transaction.collected = members;
  try {
    return { result: work(), members };
  } finally {
    transaction.collected = undefined;
  }
}

/**
 * Runs `work` in one transaction. Commits when `work` resolves, and rolls back when it rejects. The transaction begins
 * with the first statement, in the same round trip.
 *
 * When an outage happens during the commit, nobody knows whether it succeeded. The error is then the outage. To
 * recognize a repeat of the request, the caller needs an idempotency key.
 */
export async function inTransaction<T>(
  pool: pg.Pool,
  work: (tx: pg.PoolClient) => Promise<T>,
): Promise<T> {
  const done = await takeTransaction(pool);
  try {
    return await transact(pool, work);
  } finally {
    done();
  }
}

async function transact<T>(pool: pg.Pool, work: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  const { tx, transaction } = transactionOn(client);
  try {
    const result = await work(tx);
    const isOpen = transaction.state === 'open';
    transactions.delete(tx);
    if (isOpen) await client.query('commit');
    client.release();
    // The callbacks may send a notification that covers other commits, too. So they continue when this caller
    // disconnects.
    withoutCaller(() => {
      for (const callback of transaction.callbacks) callback(pool);
    });
    return result;
  } catch (error) {
    transactions.delete(tx);
    if (needsNewConnection(error)) {
      client.release(true);
      throw error;
    }
    if (transaction.state === 'new') {
      client.release();
      throw error;
    }
    // A connection whose rollback fails is broken. It must not return to the pool.
    await client.query('rollback').then(
      () => client.release(),
      () => client.release(true),
    );
    throw error;
  }
}

/**
 * Creates the connection that `work` gets. Its first statement, or the statements of its first `together`, are sent in
 * one message with `begin`.
 */
function transactionOn(client: pg.PoolClient): { tx: pg.PoolClient; transaction: Transaction } {
  // Later statements wait for the result of `begin`. Without the wait, each would commit alone when `begin` fails.
  let begun: Promise<unknown> = Promise.resolve();
  const send = (members: readonly Member[], isLast = false): void => {
    if (transaction.state === 'new') {
      transaction.state = isLast ? 'committing' : 'open';
      const begin = memberOf(['begin'], TYPES);
      begun = begin.result;
      client.query(new StatementGroup([begin, ...members]));
      return;
    }
    const sending = ready();
    if (isLast && transaction.state === 'open') transaction.state = 'committing';
    sending.then(
      () => client.query(new StatementGroup(members)),
      (error) => rejectMembers(members, error),
    );
  };
  /** Rejects statements after the end of the transaction. Without this, each would commit alone. */
  const ready = async (): Promise<void> => {
    if (transaction.state !== 'open') throw new Error(TRANSACTION_ENDED);
    await begun;
    if (transactions.get(tx) !== transaction) throw new Error(TRANSACTION_ENDED);
  };
  const query = (...args: unknown[]): Promise<unknown> => {
    if (transaction.state !== 'new' && !transaction.collected) {
      return ready().then(() => Reflect.apply(client.query, client, args));
    }
    const member = memberOf(args, TYPES);
    if (transaction.collected) transaction.collected.push(member);
    else send([member]);
    return member.result;
  };
  const tx: pg.PoolClient = Object.assign(Object.create(client), { query });
  const transaction: Transaction = { callbacks: [], send, collected: undefined, state: 'new' };
  transactions.set(tx, transaction);
  return { tx, transaction };
}

const TRANSACTION_ENDED = 'the transaction has ended';

const INTEGRITY_CLASS = '23';

/**
 * Returns the name of the constraint (unique, check, foreign-key or exclusion) that `error` reports; undefined for
 * other errors.
 */
export function violatedConstraint(error: unknown): string | undefined {
  if (!(error instanceof pg.DatabaseError)) return undefined;
  return error.code?.startsWith(INTEGRITY_CLASS) ? error.constraint : undefined;
}
