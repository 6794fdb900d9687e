import pg from 'pg';

/**
 * SQLSTATE classes of errors that the server, its configuration or our rights cause. The values in a statement cannot
 * cause them. So the same statement succeeds after the outage.
 */
const OUTAGE_CLASSES: ReadonlySet<string> = new Set([
  '08', // connection
  '28', // login rejected: the password was rotated, the role was locked or dropped
  '53', // out of disk, memory or connections
  '57', // operator intervention: shutdown, cancelled statement, dropped database
  '58', // input or output failed
  'F0', // configuration file
]);
/** After a failover, the old primary reports this code. */
const READ_ONLY = '25006';
/**
 * Codes for a schema that does not fit this code: it is not migrated, was restored from a backup, or was found by a
 * wrong search path. The texts of statements are constant, so no value can cause these errors.
 */
const WRONG_SCHEMA = ['3F000', '42P01', '42703', '42704', '42883'];
/** Codes for a prepared statement that is unknown, exists twice, or has another result type since a migration. */
const PREPARED_STATEMENTS = ['26000', '42P05'];
const OUTAGE_CODES: ReadonlySet<string> = new Set([
  READ_ONLY,
  ...WRONG_SCHEMA,
  ...PREPARED_STATEMENTS,
  '25P03', // idle in transaction for too long
  '25P04', // transaction_timeout
  '3D000', // no such database
  '40001', // serialization failure
  '40P01', // deadlock
  '42501', // a grant was lost
  '55000', // the database takes no connections
  '55006', // object in use
  '55P03', // lock not available
  'XX001', // damaged table file
  'XX002', // damaged index file
]);
/** Codes that values can cause, too. They are an outage only when these functions of the server raise them. */
const OUTAGE_ROUTINES: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  // The text is "cached plan must not change result type". The statement was prepared before a migration.
  ['0A000', new Set(['RevalidateCachedQuery'])],
  // PostgreSQL has no transaction ids left, until a vacuum frees some.
  ['54000', new Set(['GetNewTransactionId', 'GetNewMultiXactId'])],
]);

const NETWORK_CODES: ReadonlySet<string> = new Set([
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_WRITE_AFTER_END',
  'EADDRNOTAVAIL',
  'EAI_AGAIN',
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'EMFILE',
  'ENETUNREACH',
  'ENFILE',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
]);
/** Codes for a certificate that has expired, was replaced or has another host name. */
const TLS_CODES = /^(ERR_SSL_|ERR_TLS_|CERT_|UNABLE_TO_|SELF_SIGNED_CERT|DEPTH_ZERO_)/;
/** Texts of errors without a code, as `pg` reports them. */
const DRIVER_TEXTS = [
  'Connection terminated',
  'timeout exceeded when trying to connect',
  'timeout expired',
  'Query read timeout',
  'Client has encountered a connection error',
  'Client was closed and is not queryable',
  'The server does not support SSL connections',
  'There was an error establishing an SSL connection',
  'SASL: ',
];

/**
 * Whether `error` is an outage: the database, the network or our access to them fails, and the data is not the cause.
 * The same work succeeds after the outage, so it must not be dropped.
 */
export function isOutage(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  // Compare properties and not classes, because errors of the runtime may come from another realm.
  if ('errors' in error && Array.isArray(error.errors)) return error.errors.some(isOutage);
  if (error instanceof pg.DatabaseError) return isServerOutage(error);
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const message = 'message' in error && typeof error.message === 'string' ? error.message : '';
  return (
    NETWORK_CODES.has(code) ||
    TLS_CODES.test(code) ||
    DRIVER_TEXTS.some((text) => message.includes(text))
  );
}

function isServerOutage({ code = '', routine = '' }: pg.DatabaseError): boolean {
  if (OUTAGE_CODES.has(code) || OUTAGE_CLASSES.has(code.slice(0, 2))) return true;
  return OUTAGE_ROUTINES.get(code)?.has(routine) ?? false;
}

/**
 * Codes of errors that concern only one session: its server is read-only, or its search path or prepared statements are
 * wrong.
 */
const SESSION_CODES: ReadonlySet<string> = new Set([
  READ_ONLY,
  ...WRONG_SCHEMA,
  ...PREPARED_STATEMENTS,
  '0A000',
]);

/**
 * Whether the connection that reported `error` must be closed. This is so when the connection is lost, when a rollback
 * would hang as well, or when the next statement would fail in the same way.
 */
export function needsNewConnection(error: unknown): boolean {
  if (!isOutage(error)) return false;
  return !(error instanceof pg.DatabaseError) || SESSION_CODES.has(error.code ?? '');
}

/** Codes of outages that end without an operator, or with a new connection. */
const TRANSIENT_CODES: ReadonlySet<string> = new Set([
  ...PREPARED_STATEMENTS,
  READ_ONLY,
  '0A000',
  '25P03',
  '25P04',
  '40001',
  '40P01',
  '55006',
  '55P03',
]);
const TRANSIENT_CLASSES: ReadonlySet<string> = new Set(['08', '57']);
/** The code for a database that was dropped. */
const DATABASE_DROPPED = '57P04';

/**
 * Whether the server rejects this process until an operator changes something, such as the password, a grant, the
 * schema or the disk.
 */
export function isRejectedByServer(error: pg.DatabaseError): boolean {
  const code = error.code ?? '';
  if (!isServerOutage(error)) return false;
  if (code === DATABASE_DROPPED) return true;
  return !TRANSIENT_CODES.has(code) && !TRANSIENT_CLASSES.has(code.slice(0, 2));
}
