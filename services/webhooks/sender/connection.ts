import type { Socket } from 'node:net';
import { Client } from 'undici';
import { Answer } from './answer.ts';
import type { Deadline } from './deadline.ts';
import { AnswerRefused, ConnectionLost } from './failure.ts';

/** One request. */
export interface Post {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** A receiver that keeps connections open says so; idle ones are closed before common servers do. Milliseconds. */
const KEEP_ALIVE_MS = 4_000;
const MAX_KEEP_ALIVE_MS = 30_000;
/** After this a name is resolved again and a certificate checked again. Milliseconds. */
const MAX_AGE_MS = 300_000;
const MAX_HEADER_BYTES = 16 * 1024;
/**
 * Most bytes of one answer in all, with what no handler is told of: chunk sizes and their
 * extensions, blank lines, trailers. The answer itself is limited more closely.
 */
const MAX_WIRE_BYTES = 256 * 1024;

/** One connection and the HTTP/1.1 client on it: one request at a time, no reconnecting. */
export class Connection {
  readonly origin: string;
  readonly #socket: Socket;
  readonly #client: Client;
  readonly #openedAt = performance.now();
  #current: Answer | undefined;
  #bytesBefore = 0;

  /** @param onClose called once the socket is closed, by whom ever. */
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
      // The deadline of the attempt covers all of it.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect(_options, callback) {
        // Not before the client is ready for the answer.
        queueMicrotask(() => {
          if (isTaken) return callback(new ConnectionLost('the connection was closed'), null);
          isTaken = true;
          callback(null, socket);
        });
      },
    });
    socket.once('close', () => onClose(this));
  }

  /** Whether another request may follow. Asked in a later turn than the one that ended the answer. */
  get isReusable(): boolean {
    return (
      !this.#socket.destroyed && !this.isWriting && performance.now() - this.#openedAt < MAX_AGE_MS
    );
  }

  /**
   * The answer came before the request was written: the rest would be in the next one's way. With TLS the end of a
   * write is mostly noticed only after the answer, one or two turns later.
   */
  get isWriting(): boolean {
    return !this.#socket.destroyed && this.#socket.writableLength > 0;
  }

  /** Sends a request and reads the answer. Never rejects: see `error` of the answer. */
  post(request: Post, deadline: Deadline): Promise<Answer> {
    const { path, headers, body } = request;
    return new Promise((resolve) => {
      const answer = new Answer(() => {
        this.#current = undefined;
        resolve(answer);
      });
      this.#current = answer;
      this.#bytesBefore = this.#socket.bytesRead;
      deadline.guard((reason) => this.destroy(reason));
      this.#client.dispatch({ path, method: 'POST', headers, body }, answer);
    });
  }

  /** Ends it when the peer sends without end and without saying anything. */
  checkBytes(): void {
    if (this.#socket.bytesRead - this.#bytesBefore > MAX_WIRE_BYTES) {
      this.destroy(new AnswerRefused('answer is too long'));
    }
  }

  destroy(reason: Error): void {
    // First, so that nobody waits for the socket.
    this.#current?.fail(reason);
    this.#client.destroy(reason, () => {});
    this.#socket.destroy();
  }
}
