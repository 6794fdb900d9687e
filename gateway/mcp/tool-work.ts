/** The work of one request. It may continue after the client has disconnected. */
export interface ToolWork {
  run<T>(work: () => Promise<T>): Promise<T>;
  /** Calls `then` as soon as no work is running. A second call replaces the callback of the first. */
  whenIdle(then: () => void): void;
}

/** Creates the work of one request. It always ends, because every call and statement of a tool has a deadline. */
export function createToolWork(): ToolWork {
  let running = 0;
  let onIdle = (): void => {};
  return {
    async run(work) {
      running += 1;
      try {
        return await work();
      } finally {
        running -= 1;
        if (running === 0) onIdle();
      }
    },
    whenIdle(then) {
      if (running === 0) then();
      else onIdle = then;
    },
  };
}
