import pg from 'pg';

/** The connection to which a statement of `pg` writes. */
type Connection = Parameters<pg.Query['submit']>[0];

/**
 * A running statement, with the methods that `pg` calls on it. `@types/pg` declares only the first.
 *
 * @see https://github.com/brianc/node-postgres/blob/master/packages/pg/lib/query.js
 */
interface Running {
  submit(connection: Connection): Error | null | undefined;
  readonly name: string | undefined;
  readonly text: string;
  callback?: ((error: Error | null | undefined, result?: unknown) => void) | undefined;
  handleRowDescription(message: unknown): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: Connection): void;
  handleEmptyQuery(connection: Connection): void;
  handleError(error: Error, connection: Connection): void;
  handleReadyForQuery(connection: Connection): void;
}

/** One statement of a group, and the promise of its result. */
export interface Member {
  readonly query: Running;
  readonly result: Promise<pg.QueryResult>;
}

/** Rejects the results of statements that were not sent. */
export function rejectMembers(members: readonly Member[], error: Error): void {
  for (const { query } of members) query.callback?.(error);
}

/**
 * Creates a statement of a group.
 *
 * @param args the arguments of `client.query`, without a callback.
 * @param types the parsers of columns.
 */
export function memberOf(args: readonly unknown[], types: pg.CustomTypesConfig): Member {
  const [statement, values] = args;
  const config =
    typeof statement === 'string' ? { text: statement } : (statement as pg.QueryConfig);
  const more = values === undefined ? {} : { values: values as unknown[] };
  // The extended protocol. Without it, a statement without values would use the simple protocol, which ends a group.
  const extended: pg.QueryConfig = { ...config, ...more, types, ...{ queryMode: 'extended' } };
  const query = new pg.Query(extended) as unknown as Running;
  const result = new Promise<pg.QueryResult>((resolve, reject) => {
    query.callback = (error, rows) => (error ? reject(error) : resolve(rows as pg.QueryResult));
  });
  // The caller awaits `result` and gets its error. If no caller awaits it, the error must not end the process.
  result.catch(() => {});
  return { query, result };
}

/**
 * Statements that are sent to the server in one write, and end with one `Sync`. When one fails or cannot be sent, the
 * server does not run those after it. The pipeline mode of `pg` would send a `Sync` for each statement, so each
 * statement after a failed `begin` would commit alone.
 *
 * `client.query` handles the group as one statement.
 *
 * @see https://www.postgresql.org/docs/18/protocol-flow.html#PROTOCOL-FLOW-PIPELINING
 */
export class StatementGroup {
  /** Called at the end of the group. `pg` replaces it when statements have a deadline. */
  callback: (error?: Error | null) => void = () => {};
  readonly members: readonly Member[];
  readonly #left: Running[];
  /** The error because of which the remaining statements were not sent. */
  #unsent: Error | undefined;

  constructor(members: readonly Member[]) {
    this.members = members;
    this.#left = members.map(({ query }) => query);
  }

  /** Name of the current statement. By this name `pg` remembers that it is prepared. */
  get name(): string | undefined {
    return this.#left[0]?.name;
  }

  get text(): string | undefined {
    return this.#left[0]?.text;
  }

  submit(connection: Connection): null {
    const withoutSync: Connection = Object.create(connection, { sync: { value: () => {} } });
    connection.stream.cork();
    try {
      for (const query of this.#left) {
        const { callback } = query;
        query.callback = (error, result) => {
          if (error) this.#unsent ??= error;
          callback?.(error, result);
        };
        const error = query.submit(withoutSync);
        if (error) query.handleError(error, withoutSync);
        if (this.#unsent) break;
      }
    } finally {
      connection.sync();
      connection.stream.uncork();
    }
    return null;
  }

  handleRowDescription(message: unknown): void {
    this.#left[0]?.handleRowDescription(message);
  }

  handleDataRow(message: unknown): void {
    this.#left[0]?.handleDataRow(message);
  }

  handleCommandComplete(message: unknown, connection: Connection): void {
    this.#left[0]?.handleCommandComplete(message, connection);
    this.#finish(connection);
  }

  handleEmptyQuery(connection: Connection): void {
    this.#left[0]?.handleEmptyQuery(connection);
    this.#finish(connection);
  }

  /**
   * Handles the failure of a statement on the server, or the loss of the connection. The other statements are not
   * executed.
   */
  handleError(error: Error, connection: Connection): void {
    for (const query of this.#left.splice(0)) {
      unmarkPrepared(connection, query);
      query.handleError(error, connection);
    }
    this.callback(error);
  }

  handleReadyForQuery(connection: Connection): void {
    if (this.#unsent) this.handleError(this.#unsent, connection);
    else this.callback();
  }

  #finish(connection: Connection): void {
    this.#left.shift()?.handleReadyForQuery(connection);
  }
}

/** Notes that a statement is not prepared, because the server skipped it. */
function unmarkPrepared(connection: Connection, { name }: Running): void {
  const submitted: unknown = Reflect.get(connection, 'submittedNamedStatements');
  if (name && typeof submitted === 'object' && submitted !== null) {
    Reflect.deleteProperty(submitted, name);
  }
}
