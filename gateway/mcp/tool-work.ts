/** The work of one request, which may go on when its client has left. */
export interface ToolWork {
  run<T>(work: () => Promise<T>): Promise<T>;
  /** Calls `then` as soon as nothing runs, at once if nothing does. For one caller. */
  whenOver(then: () => void): void;
}

/** What runs ends by itself: every call and statement of a tool has a deadline. */
export function createToolWork(): ToolWork {
  let running = 0;
  let onOver = (): void => {};
  return {
    async run(work) {
      running += 1;
      try {
        return await work();
      } finally {
        running -= 1;
        if (running === 0) onOver();
      }
    },
    whenOver(then) {
      if (running === 0) then();
      else onOver = then;
    },
  };
}
