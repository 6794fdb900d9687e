import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { AnswerRefused } from './failure.ts';

/** Answers are read this far, so that a connection can be used again, and no further. */
const MAX_ANSWER_BYTES = 64 * 1024;
const EXCERPT_BYTES = 1024;
/** Informational answers (1xx) before the real one. */
const MAX_INFORMATIONAL = 16;

/** Reads one answer: its status, its first KiB, when it came; and ends, one way or the other, once. */
export class Answer implements Dispatcher.DispatchHandler {
  /** Of the final answer; 0 while there is none. */
  status = 0;
  retryAfter: string | string[] | undefined;
  /** When it was made, by the clock of who made it. */
  date: string | string[] | undefined;
  /** Why it is not complete. */
  error: Error | undefined;
  /** Moments of the monotonic clock. Milliseconds; undefined for what did not happen. */
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

  /** The first KiB as text: no half characters, and no NUL, which PostgreSQL cannot keep. */
  excerpt(): string {
    if (this.#excerpt.length === 0) return '';
    const start = Buffer.concat(this.#excerpt);
    const isWhole = this.#bytes === start.length;
    // Told that more is to come, the decoder leaves out a character that is cut in two.
    const text = isWhole ? start.toString() : new TextDecoder().decode(start, { stream: true });
    return text.replaceAll('\0', '\u{fffd}');
  }

  /** Ends it from outside. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.error = error;
    this.#end();
  }

  onRequestStart(): void {
    // Wanted by the interface; onRequestSent is the moment that counts.
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
    const room = EXCERPT_BYTES - this.#bytes;
    // A copy: the chunk is a window into a buffer of 64 KiB.
    if (room > 0) this.#excerpt.push(Buffer.from(chunk.subarray(0, room)));
    this.#bytes += chunk.length;
    if (this.#bytes <= MAX_ANSWER_BYTES) return;
    // The status is what was asked for; the rest, and with it the connection, is given up.
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
