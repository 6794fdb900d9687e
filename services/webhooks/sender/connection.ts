import type { Socket } from 'node:net';
import { Client } from 'undici';
import { ConnectionLost, ResponseLimitExceeded } from '../../platform/outbound/failure.ts';
import type { Deadline } from './deadline.ts';
import { ResponseReader } from './response-reader.ts';

/** One POST request. */
export interface Post {
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
  readonly #socket: Socket;
  readonly #client: Client;
  readonly #openedAt = performance.now();
  #current: ResponseReader | undefined;
  #bytesBefore = 0;

  /** @param onClose called once, when either side has closed the socket. */
  constructor(origin: string, socket: Socket, onClose: (connection: Connection) => void) {
    this.origin = origin;
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
