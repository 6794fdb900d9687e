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
 * Idle connections are closed before common servers close them, unless the receiver's `Keep-Alive` header has a longer
 * time. Milliseconds.
 */
const KEEP_ALIVE_MS = 4_000;
const MAX_KEEP_ALIVE_MS = 30_000;
/** Maximum age of a connection. A new one resolves the name and checks the certificate again. Milliseconds. */
const MAX_AGE_MS = 300_000;
const MAX_HEADER_BYTES = 16 * 1024;
/**
 * Maximum number of bytes of one response, including bytes that no handler gets: chunk sizes and their extensions, blank
 * lines and trailers. The body has a lower limit.
 */
const MAX_WIRE_BYTES = 256 * 1024;

/** One connection with its HTTP/1.1 client: one request at a time, no reconnect. */
export class Connection {
  readonly origin: string;
  readonly #socket: Socket;
  readonly #client: Client;
  readonly #openedAt = performance.now();
  #current: ResponseReader | undefined;
  #bytesBefore = 0;

  /** @param onClose called once when the socket is closed by either side. */
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
      // The deadline of the attempt covers all phases.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect(_options, callback) {
        // The microtask runs after the client is ready for the response.
        queueMicrotask(() => {
          if (isTaken) return callback(new ConnectionLost('the connection was closed'), null);
          isTaken = true;
          callback(null, socket);
        });
      },
    });
    socket.once('close', () => onClose(this));
  }

  /** Whether another request may follow. Valid only in an event loop tick after the end of the response. */
  get isReusable(): boolean {
    return (
      !this.#socket.destroyed && !this.isWriting && performance.now() - this.#openedAt < MAX_AGE_MS
    );
  }

  /**
   * Whether the request is still being written after its response. The rest would be sent before the next request. With
   * TLS the socket usually reports the end of a write one or two ticks after the response.
   */
  get isWriting(): boolean {
    return !this.#socket.destroyed && this.#socket.writableLength > 0;
  }

  /** Sends a request and reads the response. Never rejects: see `error` of the response. */
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
    // The response ends first, so that the caller does not wait for the socket.
    this.#current?.fail(reason);
    this.#client.destroy(reason, () => {});
    this.#socket.destroy();
  }
}
