import { ConnectionLost } from '../../platform/outbound/failure.ts';
import type { Connection } from './connection.ts';

/**
 * Maximum number of idle connections, over all origins: about as many as are usually in flight. Unused connections are
 * closed because of their age. There is no limit for each origin, because many endpoints may share an origin, and the
 * next burst needs the connections of the last one.
 */
const MAX_IDLE = 512;
/** Number of event loop ticks after which a write has certainly ended, unless the receiver does not read. */
const MAX_WRITING_TICKS = 5;
/** Interval at which open responses are checked for bytes that no handler gets. Milliseconds. */
const CHECK_MS = 1_000;

/**
 * The errors for connections that are closed on purpose. They are created once, because a stack trace costs more than a
 * close.
 */
const NOT_NEEDED = new ConnectionLost('no longer needed');
const NOT_REUSABLE = new ConnectionLost('not reusable');

/** Keeps connections open between requests. Their number and age are limited. */
export class Pool {
  readonly #busy = new Set<Connection>();
  readonly #idle = new IdleConnections();
  readonly #checking: NodeJS.Timeout;
  #isClosed = false;

  constructor() {
    this.#checking = setInterval(() => {
      for (const connection of this.#busy) connection.checkBytes();
    }, CHECK_MS);
    this.#checking.unref();
  }

  /** Takes the idle connection to an origin that was used last. Undefined when there is none. */
  take(origin: string): Connection | undefined {
    for (;;) {
      const connection = this.#idle.pop(origin);
      if (!connection) return undefined;
      if (connection.isReusable) {
        this.#busy.add(connection);
        return connection;
      }
      connection.destroy(NOT_REUSABLE);
    }
  }

  /** Adds a connection that is in use. */
  add(connection: Connection): void {
    this.#busy.add(connection);
    if (this.#isClosed) connection.destroy(stopping());
  }

  /**
   * Keeps a connection after its use, or closes it.
   *
   * @param ticks maximum number of event loop ticks to wait until a write ends.
   */
  giveBack(connection: Connection, ticks = MAX_WRITING_TICKS): void {
    if (!this.#busy.has(connection)) return;
    if (connection.isWriting && ticks > 0) {
      setImmediate(() => this.giveBack(connection, ticks - 1));
      return;
    }
    this.#busy.delete(connection);
    if (!connection.isReusable) connection.destroy(NOT_REUSABLE);
    else this.#idle.push(connection)?.destroy(NOT_NEEDED);
  }

  /** Removes a closed connection. */
  remove(connection: Connection): void {
    this.#busy.delete(connection);
    this.#idle.remove(connection);
  }

  /** Closes all idle connections. */
  closeIdle(): void {
    for (const connection of this.#idle.clear()) connection.destroy(NOT_NEEDED);
  }

  idle(): number {
    return this.#idle.size;
  }

  busy(): number {
    return this.#busy.size;
  }

  /** Closes all connections, also those in use. */
  close(): void {
    this.#isClosed = true;
    clearInterval(this.#checking);
    const reason = stopping();
    const closing = [...this.#busy, ...this.#idle.clear()];
    this.#busy.clear();
    for (const connection of closing) connection.destroy(reason);
  }
}

function stopping(): ConnectionLost {
  return new ConnectionLost('this process is stopping');
}

/** Connections that no request uses. */
class IdleConnections {
  /** All idle connections. The one that has been idle for the longest time is first. */
  readonly #all = new Set<Connection>();
  /** The same connections by origin. */
  readonly #stacks = new Map<string, Connection[]>();

  get size(): number {
    return this.#all.size;
  }

  /** Adds a connection. Returns the oldest one if there are too many. */
  push(connection: Connection): Connection | undefined {
    const stack = this.#stacks.get(connection.origin);
    if (stack) stack.push(connection);
    else this.#stacks.set(connection.origin, [connection]);
    this.#all.add(connection);
    const oldest = this.#all.size > MAX_IDLE ? this.#all.values().next().value : undefined;
    if (oldest) this.remove(oldest);
    return oldest;
  }

  pop(origin: string): Connection | undefined {
    const stack = this.#stacks.get(origin);
    const connection = stack?.pop();
    if (connection) this.#all.delete(connection);
    if (stack?.length === 0) this.#stacks.delete(origin);
    return connection;
  }

  remove(connection: Connection): void {
    if (!this.#all.delete(connection)) return;
    const stack = this.#stacks.get(connection.origin) ?? [];
    // Search from the front, because connections that are closed because of their age are there.
    const index = stack.indexOf(connection);
    if (index >= 0) stack.splice(index, 1);
    if (stack.length === 0) this.#stacks.delete(connection.origin);
  }

  /** Removes and returns all connections. */
  clear(): Connection[] {
    const all = [...this.#all];
    this.#all.clear();
    this.#stacks.clear();
    return all;
  }
}
