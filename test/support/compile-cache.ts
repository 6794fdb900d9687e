import { fileURLToPath } from 'node:url';

/** Compiled modules, so that the many processes of the tests need not strip and compile all of them anew. */
export const COMPILE_CACHE = fileURLToPath(
  new URL('../../node_modules/.cache/node-compile', import.meta.url),
);
