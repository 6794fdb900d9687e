import type { Socket } from 'node:net';
import { Client } from 'undici';
import { ConnectionLost, ResponseLimitExceeded, TooLate } from '../../platform/outbound/failure.ts';
import { ResponseReader } from './response-reader.ts';

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

/** One POST request. */
interface Post {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/**
 * How long an idle connection stays open. This is shorter than the timeout of common servers, so that the sender closes
 * the connection, not the server. A receiver's `Keep-Alive` header may ask for a longer time. Milliseconds.
 */
const KEEP_ALIVE_MS = 4_000;
const MAX_KEEP_ALIVE_MS = 30_000;
/**
 * Maximum age of a connection. For a new one, the name is resolved and the certificate is checked again. Milliseconds.
 */
const MAX_AGE_MS = 300_000;
const MAX_HEADER_BYTES = 16 * 1024;
/**
 * Maximum number of bytes of one response on the wire. It includes bytes that no handler gets: chunk sizes and their
 * extensions, blank lines and trailers. The limit for the body is lower.
 */
const MAX_WIRE_BYTES = 256 * 1024;

/** One connection with its HTTP/1.1 client. It sends one request at a time, and does not reconnect. */
export class Connection {
  readonly origin: string;
  /** The IP address that it has reached. */
  readonly address: string;
  readonly #socket: Socket;
  readonly #client: Client;
  readonly #openedAt = performance.now();
  #current: ResponseReader | undefined;
  #bytesBefore = 0;

  /** @param onClose called once, when either side has closed the socket. */
  constructor(
    { origin, address }: { readonly origin: string; readonly address: string },
    socket: Socket,
    onClose: (connection: Connection) => void,
  ) {
    this.origin = origin;
    this.address = address;
    this.#socket = socket;
    let isTaken = false;
    this.#client = new Client(origin, {
      allowH2: false,
      pipelining: 1,
      maxHeaderSize: MAX_HEADER_BYTES,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: MAX_KEEP_ALIVE_MS,
      // The deadline of the attempt includes all phases, so the client needs no time limits.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect(_options, callback) {
        // In a microtask, because the client must first be ready for the response.
        queueMicrotask(() => {
          if (isTaken) return callback(new ConnectionLost('the connection was closed'), null);
          isTaken = true;
          callback(null, socket);
        });
      },
    });
    socket.once('close', () => onClose(this));
  }

  /**
   * Whether another request may follow. The value is correct only in a later event loop tick than the end of the
   * response.
   */
  get isReusable(): boolean {
    return (
      !this.#socket.destroyed && !this.isWriting && performance.now() - this.#openedAt < MAX_AGE_MS
    );
  }

  /**
   * Whether the request is still being written although its response has ended. The rest would be sent before the next
   * request. With TLS, the socket usually reports the end of a write one or two ticks after the response.
   */
  get isWriting(): boolean {
    return !this.#socket.destroyed && this.#socket.writableLength > 0;
  }

  /** Sends a request and reads the response. Never rejects: a failure is the `error` of the response. */
  post(request: Post, deadline: Deadline): Promise<ResponseReader> {
    const { path, headers, body } = request;
    return new Promise((resolve) => {
      const response = new ResponseReader(() => {
        this.#current = undefined;
        resolve(response);
      });
      this.#current = response;
      this.#bytesBefore = this.#socket.bytesRead;
      deadline.guard((reason) => this.destroy(reason));
      this.#client.dispatch({ path, method: 'POST', headers, body }, response);
    });
  }

  /** Closes the connection when the receiver has sent too many bytes. */
  checkBytes(): void {
    if (this.#socket.bytesRead - this.#bytesBefore > MAX_WIRE_BYTES) {
      this.destroy(new ResponseLimitExceeded('answer is too long'));
    }
  }

  destroy(reason: Error): void {
    // End the response first, so that its reader does not wait for the socket.
    this.#current?.fail(reason);
    this.#client.destroy(reason, () => {});
    this.#socket.destroy();
  }
}

/** The deadline of steps of an attempt. It stops the step that is running when it passes. */
export class Deadline {
  readonly #message: string;
  #timer: NodeJS.Timeout;
  #endsAt: number;
  #stopCurrent: ((reason: TooLate) => void) | undefined;
  #reason: TooLate | undefined;

  /** @param ms time from now. Milliseconds. */
  constructor(ms: number, message = `no complete answer within ${ms} ms`) {
    this.#message = message;
    this.#endsAt = performance.now() + ms;
    this.#timer = this.#start(ms);
  }

  #start(ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      this.#reason = new TooLate(this.#message);
      this.#stopCurrent?.(this.#reason);
    }, ms);
  }

  /** Waits for work of ours, whose time does not count, because the receiver did not cause it. */
  async without<T>(work: Promise<T>): Promise<T> {
    clearTimeout(this.#timer);
    const pausedAt = performance.now();
    try {
      return await work;
    } finally {
      this.#endsAt += performance.now() - pausedAt;
      this.#timer = this.#start(this.#endsAt - performance.now());
    }
  }

  get isOver(): boolean {
    return this.#reason !== undefined;
  }

  /**
   * Sets the function that stops the current step at the deadline. When the deadline has already passed, it is called
   * at once.
   */
  guard(stop: (reason: TooLate) => void): void {
    this.#stopCurrent = stop;
    if (this.#reason) stop(this.#reason);
  }

  cancel(): void {
    clearTimeout(this.#timer);
  }
}
