import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { ResponseLimitExceeded } from '../../platform/outbound/failure.ts';

/** Maximum size of a response that is read to its end, so that the connection can be reused. Bytes. */
const MAX_RESPONSE_BYTES = 64 * 1024;
const EXCERPT_BYTES = 1024;
/** Maximum number of informational responses (1xx) before the final response. */
const MAX_INFORMATIONAL = 16;

/** Reads one response: its status, its first KiB, and the times of its parts. The response ends exactly once. */
export class ResponseReader implements Dispatcher.DispatchHandler {
  /** Status of the final response; 0 until it arrives. */
  status = 0;
  /** Headers of the final response; empty until it arrives. */
  headers: IncomingHttpHeaders = {};
  /** Why the response is not complete; undefined when it is. */
  error: Error | undefined;
  /** Times by the monotonic clock, in milliseconds. Undefined for parts that did not happen. */
  sentAt: number | undefined;
  beganAt: number | undefined;
  endedAt: number | undefined;

  readonly #onEnd: () => void;
  readonly #excerpt: Buffer[] = [];
  #bytes = 0;
  #informational = 0;
  #isOver = false;

  /** @param onEnd called once: when the response is complete, or when it cannot be completed. */
  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
  }

  /** Returns the first KiB as text. It has no incomplete characters, and no NUL, which PostgreSQL cannot store. */
  excerpt(): string {
    if (this.#excerpt.length === 0) return '';
    const start = Buffer.concat(this.#excerpt);
    const isWhole = this.#bytes === start.length;
    // In stream mode, the decoder leaves out a last character that is incomplete.
    const text = isWhole ? start.toString() : new TextDecoder().decode(start, { stream: true });
    return text.replaceAll('\0', '\u{fffd}');
  }

  /** Ends the response with an error that occurred outside of this class. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.error = error;
    this.#end();
  }

  onRequestStart(): void {
    // undici requires this method. `onRequestSent` stores the time.
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
    // Copy the bytes, because the chunk is a view of a buffer of 64 KiB.
    if (space > 0) this.#excerpt.push(Buffer.from(chunk.subarray(0, space)));
    this.#bytes += chunk.length;
    if (this.#bytes <= MAX_RESPONSE_BYTES) return;
    // The status is enough. So skip the rest of the response, and close the connection.
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
