import type { Connection } from './connection.ts';
import { ConnectionLost } from './failure.ts';

/**
 * Most idle connections, about as many as are usually in flight, whatever their origin. Many endpoints may share an
 * origin, and the next burst needs the connections of the last one. Unused connections are closed by their age. A lower
 * limit for each origin would close and open connections with every burst.
 */
const MAX_IDLE = 512;
/** After this many event loop ticks a write has ended, unless the receiver does not read. */
const MAX_WRITING_TICKS = 5;
/** How often answers are checked for bytes that no handler gets. Milliseconds. */
const CHECK_MS = 1_000;

/** Errors for planned closes, created once, because a stack trace costs more than a close. */
const NOT_NEEDED = new ConnectionLost('not needed any more');
const NOT_FIT = new ConnectionLost('not fit for use');

export interface Pool {
  /** The most recently used idle connection to an origin; undefined without one. */
  take(origin: string): Connection | undefined;
  /** Adds a connection that is in use. */
  add(connection: Connection): void;
  /** Returns a connection after its use. It is kept for a while, or closed. */
  giveBack(connection: Connection): void;
  /** Removes a closed connection. */
  remove(connection: Connection): void;
  /** Closes all idle connections. */
  closeIdle(): void;
  readonly idle: () => number;
  readonly busy: () => number;
  /** Closes all connections, also those in use. */
  close(): void;
}

/** Keeps connections alive between requests, with a limit in number and age. */
export function createPool(): Pool {
  const busy = new Set<Connection>();
  /** All idle connections, longest idle first. */
  const idle = new Set<Connection>();
  /** The same connections by origin. */
  const stacks = new Map<string, Connection[]>();
  let isClosed = false;
  const checking = setInterval(() => {
    for (const connection of busy) connection.checkBytes();
  }, CHECK_MS);
  checking.unref();

  function popIdle(connection: Connection): void {
    idle.delete(connection);
    const stack = stacks.get(connection.origin);
    stack?.pop();
    if (stack?.length === 0) stacks.delete(connection.origin);
  }

  function removeIdle(connection: Connection): void {
    if (!idle.delete(connection)) return;
    const stack = stacks.get(connection.origin) ?? [];
    // Connections that are closed because of their age are at the front.
    const at = stack.indexOf(connection);
    if (at >= 0) stack.splice(at, 1);
    if (stack.length === 0) stacks.delete(connection.origin);
  }

  function keep(connection: Connection): void {
    const stack = stacks.get(connection.origin);
    if (stack) stack.push(connection);
    else stacks.set(connection.origin, [connection]);
    idle.add(connection);
    const oldest = idle.size > MAX_IDLE ? idle.values().next().value : undefined;
    if (!oldest) return;
    removeIdle(oldest);
    oldest.destroy(NOT_NEEDED);
  }

  /** @param ticks event loop ticks that it may wait for the end of a write. */
  function giveBack(connection: Connection, ticks = MAX_WRITING_TICKS): void {
    if (!busy.has(connection)) return;
    if (connection.isWriting && ticks > 0) {
      setImmediate(giveBack, connection, ticks - 1);
      return;
    }
    busy.delete(connection);
    if (connection.isReusable) keep(connection);
    else connection.destroy(NOT_FIT);
  }

  return {
    take(origin) {
      for (;;) {
        const connection = stacks.get(origin)?.at(-1);
        if (!connection) return undefined;
        popIdle(connection);
        if (connection.isReusable) {
          busy.add(connection);
          return connection;
        }
        connection.destroy(NOT_FIT);
      }
    },
    add(connection) {
      busy.add(connection);
      if (isClosed) connection.destroy(new ConnectionLost('this process is stopping'));
    },
    giveBack: (connection) => giveBack(connection),
    remove(connection) {
      busy.delete(connection);
      removeIdle(connection);
    },
    closeIdle() {
      const closing = [...idle];
      idle.clear();
      stacks.clear();
      for (const connection of closing) connection.destroy(NOT_NEEDED);
    },
    idle: () => idle.size,
    busy: () => busy.size,
    close() {
      isClosed = true;
      clearInterval(checking);
      const reason = new ConnectionLost('this process is stopping');
      for (const connection of [...busy, ...idle]) connection.destroy(reason);
      busy.clear();
      idle.clear();
      stacks.clear();
    },
  };
}
