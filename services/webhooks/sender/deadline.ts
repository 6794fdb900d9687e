import { TooLate } from './failure.ts';

/** The total time of one attempt. At its end it stops the running step. */
export class Deadline {
  readonly #timer: NodeJS.Timeout;
  #stopCurrent: ((reason: TooLate) => void) | undefined;
  #reason: TooLate | undefined;

  /** @param ms from now. Milliseconds. */
  constructor(ms: number) {
    this.#timer = setTimeout(() => {
      this.#reason = new TooLate(`no complete answer within ${ms} ms`);
      this.#stopCurrent?.(this.#reason);
    }, ms);
  }

  get isOver(): boolean {
    return this.#reason !== undefined;
  }

  /** Sets the function that stops the current step at the deadline; calls it at once when the time is over. */
  guard(stop: (reason: TooLate) => void): void {
    this.#stopCurrent = stop;
    if (this.#reason) stop(this.#reason);
  }

  cancel(): void {
    clearTimeout(this.#timer);
  }
}
