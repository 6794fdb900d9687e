import { TooLate } from '../../platform/outbound/failure.ts';

/** The deadline of one attempt. When it passes, it stops the current step. */
export class Deadline {
  readonly #timer: NodeJS.Timeout;
  #stopCurrent: ((reason: TooLate) => void) | undefined;
  #reason: TooLate | undefined;

  /** @param ms time from now. Milliseconds. */
  constructor(ms: number) {
    this.#timer = setTimeout(() => {
      this.#reason = new TooLate(`no complete answer within ${ms} ms`);
      this.#stopCurrent?.(this.#reason);
    }, ms);
  }

  get isOver(): boolean {
    return this.#reason !== undefined;
  }

  /** Sets the function that stops the current step at the deadline. Calls it immediately if the deadline has passed. */
  guard(stop: (reason: TooLate) => void): void {
    this.#stopCurrent = stop;
    if (this.#reason) stop(this.#reason);
  }

  cancel(): void {
    clearTimeout(this.#timer);
  }
}
