import pg from 'pg';

/** What `pg` gives a statement to write to. */
type Connection = Parameters<pg.Query['submit']>[0];

/**
 * What `pg` calls on a statement that it runs. `@types/pg` names only the first.
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

/** One statement of a group, and its result. */
export interface Member {
  readonly query: Running;
  readonly result: Promise<pg.QueryResult>;
}

/** Ends statements that were not sent. */
export function refuse(members: readonly Member[], error: Error): void {
  for (const { query } of members) query.callback?.(error);
}

/** @param args those of `client.query`, without a callback. @param types how columns are read. */
export function memberOf(args: readonly unknown[], types: pg.CustomTypesConfig): Member {
  const [given, values] = args;
  const config = typeof given === 'string' ? { text: given } : (given as pg.QueryConfig);
  const more = values === undefined ? {} : { values: values as unknown[] };
  // Without values a statement would go by the simple protocol, which ends a group.
  const extended: pg.QueryConfig = { ...config, ...more, types, ...{ queryMode: 'extended' } };
  const query = new pg.Query(extended) as unknown as Running;
  const result = new Promise<pg.QueryResult>((resolve, reject) => {
    query.callback = (error, answer) => (error ? reject(error) : resolve(answer as pg.QueryResult));
  });
  // Who sent the statement sees its error; one that nobody waits for must not end the process.
  result.catch(() => {});
  return { query, result };
}

/**
 * Statements that go to the server in one write and end with one `Sync`: after one that fails, or that cannot
 * be sent, the server runs none of the rest. With a `Sync` of its own for each, as `pg`'s pipeline mode sends
 * them, what follows a `begin` that failed would be committed by itself.
 *
 * `client.query` takes it as one statement.
 *
 * @see https://www.postgresql.org/docs/18/protocol-flow.html#PROTOCOL-FLOW-PIPELINING
 */
export class StatementGroup {
  /** Set by `pg` where statements have a deadline; called at the end of the group. */
  callback: (error?: Error | null) => void = () => {};
  readonly members: readonly Member[];
  readonly #left: Running[];
  /** Why the rest was not sent. */
  #unsent: Error | undefined;

  constructor(members: readonly Member[]) {
    this.members = members;
    this.#left = members.map(({ query }) => query);
  }

  /** Of the statement whose turn it is: `pg` remembers by it what is prepared. */
  get name(): string | undefined {
    return this.#left[0]?.name;
  }

  get text(): string | undefined {
    return this.#left[0]?.text;
  }

  submit(connection: Connection): null {
    const held: Connection = Object.create(connection, { sync: { value: () => {} } });
    connection.stream.cork();
    try {
      for (const query of this.#left) {
        const answer = query.callback;
        query.callback = (error, result) => {
          if (error) this.#unsent ??= error;
          answer?.(error, result);
        };
        const error = query.submit(held);
        if (error) query.handleError(error, held);
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

  /** The server refused a statement, or the connection is lost: none of the rest takes place. */
  handleError(error: Error, connection: Connection): void {
    for (const query of this.#left.splice(0)) {
      forgetSubmitted(connection, query);
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

/** A statement that the server skipped is not prepared. */
function forgetSubmitted(connection: Connection, { name }: Running): void {
  const submitted: unknown = Reflect.get(connection, 'submittedNamedStatements');
  if (name && typeof submitted === 'object' && submitted !== null) {
    Reflect.deleteProperty(submitted, name);
  }
}
