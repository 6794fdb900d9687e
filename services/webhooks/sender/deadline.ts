import { TooLate } from './failure.ts';

/** The total time of one attempt: it stops whatever is still running. */
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

  /** Names what the deadline must stop from now on; at once when it is over. */
  guard(stop: (reason: TooLate) => void): void {
    this.#stopCurrent = stop;
    if (this.#reason) stop(this.#reason);
  }

  cancel(): void {
    clearTimeout(this.#timer);
  }
}
