import { registerHooks } from 'node:module';
import { addEventHandler, getState } from 'jest-circus';
import { restoreClock } from '../clock.ts';

// Runs once in each worker, before its first test file.

const GLOBALS = new URL('./globals.ts', import.meta.url).href;

// The package works only inside of jest's own runner.
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === '@jest/globals' ? { url: GLOBALS, shortCircuit: true } : next(specifier, context),
});

/** Ends what hangs; how fast something is, no test says. Milliseconds. */
const LIMIT_MS = 120_000 * Number(process.env.DEADLINE_SCALE ?? 1);

// It would end the worker, and the run would wait for its file for good.
process.exit = (code) => {
  throw new Error(`process.exit(${code ?? ''}) in a test`);
};

let file: unknown;

// The runner has no time limit of its own.
addEventHandler((event) => {
  const { rootDescribeBlock, currentDescribeBlock } = getState();
  if (rootDescribeBlock !== file) {
    // Test files of a worker share its clock.
    restoreClock();
    file = rootDescribeBlock;
  }
  const added =
    event.name === 'add_test'
      ? currentDescribeBlock.children.at(-1)
      : event.name === 'add_hook'
        ? currentDescribeBlock.hooks.at(-1)
        : undefined;
  if (added && 'fn' in added && added.fn) Object.assign(added, { fn: limited(added.fn) });
});

const { setTimeout, clearTimeout, setImmediate } = globalThis;

function limited(work: (...args: never[]) => unknown): () => Promise<unknown> {
  if (work.length > 0) throw new Error('a test gets no `done`: return a promise');
  return async () => {
    let timer: NodeJS.Timeout | undefined;
    const overdue = new Promise<never>((_, fail) => {
      timer = setTimeout(() => fail(new Error(`not finished after ${LIMIT_MS} ms`)), LIMIT_MS);
    });
    try {
      const result = await Promise.race([(work as () => unknown)(), overdue]);
      // A rejection that nobody waits for belongs to this test.
      await new Promise((done) => setImmediate(done));
      return result;
    } finally {
      clearTimeout(timer);
    }
  };
}
