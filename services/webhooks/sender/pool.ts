import type { Connection } from './connection.ts';
import { ConnectionLost } from './failure.ts';

/**
 * Connections that wait to be used again: as many as are usually in flight at most, wherever they lead.
 * Many endpoints may share an origin, and what a burst needed the next one needs again; what nobody
 * needs is closed by its age. A smaller number for each origin would close and open them burst by burst.
 */
const MAX_IDLE = 512;
/** After so many turns of the event loop a write has ended, unless the receiver does not read. */
const MAX_WRITING_TURNS = 5;
/** How often answers are checked for bytes that no handler sees. Milliseconds. */
const CHECK_MS = 1_000;

/** Reasons for planned closes, which nobody reads: made once, for a stack costs more than a close. */
const NOT_NEEDED = new ConnectionLost('not needed any more');
const NOT_FIT = new ConnectionLost('not fit for use');

export interface Pool {
  /** An idle connection to an origin, the one that was used last; undefined when there is none. */
  take(origin: string): Connection | undefined;
  /** A connection that is in use from now on. */
  add(connection: Connection): void;
  /** Ends the use of one: it is kept for a while, or closed. */
  giveBack(connection: Connection): void;
  /** Forgets one that was closed. */
  forget(connection: Connection): void;
  /** Closes those that wait to be used again. */
  closeIdle(): void;
  readonly idle: () => number;
  readonly busy: () => number;
  /** Closes all connections, whatever they are doing. */
  close(): void;
}

/** Keeps connections alive between requests, few enough of them, and the oldest not at all. */
export function createPool(): Pool {
  const busy = new Set<Connection>();
  /** All idle ones, the one that has waited longest first. */
  const idle = new Set<Connection>();
  /** The same by origin. */
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
    // Those that are closed for their age are at the front.
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

  /** @param turns of the event loop that it may wait for the end of a write. */
  function giveBack(connection: Connection, turns = MAX_WRITING_TURNS): void {
    if (!busy.has(connection)) return;
    if (connection.isWriting && turns > 0) {
      setImmediate(giveBack, connection, turns - 1);
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
    forget(connection) {
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
