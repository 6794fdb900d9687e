import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { AnswerRefused } from './failure.ts';

/** Answers are read up to this size, so that the connection can be reused. */
const MAX_ANSWER_BYTES = 64 * 1024;
const EXCERPT_BYTES = 1024;
/** Informational answers (1xx) before the real one. */
const MAX_INFORMATIONAL = 16;

/** Reads one answer: its status, its first KiB and the time of its parts. It ends exactly once. */
export class Answer implements Dispatcher.DispatchHandler {
  /** Status of the final answer; 0 before it. */
  status = 0;
  retryAfter: string | string[] | undefined;
  /** Time of the answer by the clock of its sender: the `Date` header. */
  date: string | string[] | undefined;
  /** Why the answer is not complete. */
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

  /** @param onEnd called once, when the answer is complete or cannot be completed. */
  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
  }

  /** The first KiB as text, without half characters and without NUL, which PostgreSQL cannot store. */
  excerpt(): string {
    if (this.#excerpt.length === 0) return '';
    const start = Buffer.concat(this.#excerpt);
    const isWhole = this.#bytes === start.length;
    // In stream mode the decoder leaves out a character that is cut in two.
    const text = isWhole ? start.toString() : new TextDecoder().decode(start, { stream: true });
    return text.replaceAll('\0', '\u{fffd}');
  }

  /** Ends the answer with an error from outside. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.error = error;
    this.#end();
  }

  onRequestStart(): void {
    // Required by the interface. The time is taken in onRequestSent.
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
      this.retryAfter = headers['retry-after'];
      this.date = headers.date;
      return;
    }
    this.#informational += 1;
    if (this.#informational > MAX_INFORMATIONAL) {
      controller.abort(new AnswerRefused('too many informational answers'));
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const space = EXCERPT_BYTES - this.#bytes;
    // A copy: the chunk is a window into a buffer of 64 KiB.
    if (space > 0) this.#excerpt.push(Buffer.from(chunk.subarray(0, space)));
    this.#bytes += chunk.length;
    if (this.#bytes <= MAX_ANSWER_BYTES) return;
    // The status is enough. The rest of the answer is skipped, and the connection is closed.
    this.#end();
    controller.abort(new AnswerRefused('answer is too long'));
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
