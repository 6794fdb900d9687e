import { fileURLToPath } from 'node:url';

/** A cache of compiled modules. Without it each process of the tests compiles all modules again. */
export const COMPILE_CACHE = fileURLToPath(
  new URL('../../../node_modules/.cache/node-compile', import.meta.url),
);
