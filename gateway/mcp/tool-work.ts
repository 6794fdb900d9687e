/** The work of one request. It may continue after the client has disconnected. */
export interface ToolWork {
  run<T>(work: () => Promise<T>): Promise<T>;
  /** Calls `then` when no work is running, immediately if there is none. Only one callback is kept. */
  whenIdle(then: () => void): void;
}

/** Every call and statement of a tool has a deadline, so the work always ends. */
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
