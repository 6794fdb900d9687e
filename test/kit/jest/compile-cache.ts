import { fileURLToPath } from 'node:url';

/** Cache of compiled modules, so that the many processes of the tests need not strip and compile all modules again. */
export const COMPILE_CACHE = fileURLToPath(
  new URL('../../../node_modules/.cache/node-compile', import.meta.url),
);
