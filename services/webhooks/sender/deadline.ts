import { TooLate } from '../../platform/outbound/failure.ts';

/** The deadline of one attempt. It stops the step that is running when it passes. */
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
