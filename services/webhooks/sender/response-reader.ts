import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { ResponseLimitExceeded } from '../../platform/outbound/failure.ts';

/** Responses are read up to this size, so that the connection can be reused. */
const MAX_RESPONSE_BYTES = 64 * 1024;
const EXCERPT_BYTES = 1024;
/** Maximum number of informational responses (1xx) before the final response. */
const MAX_INFORMATIONAL = 16;

/** Reads one response: its status, its first KiB and the times of its parts. Ends exactly once. */
export class ResponseReader implements Dispatcher.DispatchHandler {
  /** Status of the final response; 0 before it arrives. */
  status = 0;
  /** The headers of the final response; none before it arrives. */
  headers: IncomingHttpHeaders = {};
  /** Why the response is not complete. */
  error: Error | undefined;
  /** Times by the monotonic clock. Milliseconds; undefined for parts that did not happen. */
  sentAt: number | undefined;
  beganAt: number | undefined;
  endedAt: number | undefined;

  readonly #onEnd: () => void;
  readonly #excerpt: Buffer[] = [];
  #bytes = 0;
  #informational = 0;
  #isOver = false;

  /** @param onEnd called once, when the response is complete or cannot be completed. */
  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
  }

  /** The first KiB as text, without half characters and without NUL, which PostgreSQL cannot store. */
  excerpt(): string {
    if (this.#excerpt.length === 0) return '';
    const start = Buffer.concat(this.#excerpt);
    const isWhole = this.#bytes === start.length;
    // In stream mode the decoder leaves out an incomplete last character.
    const text = isWhole ? start.toString() : new TextDecoder().decode(start, { stream: true });
    return text.replaceAll('\0', '\u{fffd}');
  }

  /** Ends the response with an error from outside. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.error = error;
    this.#end();
  }

  onRequestStart(): void {
    // The interface requires this method. `onRequestSent` stores the time.
  }

  onRequestSent(): void {
    this.sentAt = performance.now();
  }

  onResponseStarted(): void {
    this.beganAt ??= performance.now();
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    if (status >= 200) {
      this.status = status;
      this.headers = headers;
      return;
    }
    this.#informational += 1;
    if (this.#informational > MAX_INFORMATIONAL) {
      controller.abort(new ResponseLimitExceeded('too many informational answers'));
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const space = EXCERPT_BYTES - this.#bytes;
    // The copy is necessary, because the chunk is a view of a buffer of 64 KiB.
    if (space > 0) this.#excerpt.push(Buffer.from(chunk.subarray(0, space)));
    this.#bytes += chunk.length;
    if (this.#bytes <= MAX_RESPONSE_BYTES) return;
    // The status is enough. The rest of the response is skipped, and the connection is closed.
    this.#end();
    controller.abort(new ResponseLimitExceeded('answer is too long'));
  }

  onResponseEnd(): void {
    this.#end();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.fail(error);
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.endedAt = performance.now();
    this.#onEnd();
  }
}
