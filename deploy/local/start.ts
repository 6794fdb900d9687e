import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

// `npm start`. The compile cache is stored in node_modules and makes the next start faster.
enableCompileCache(
  fileURLToPath(new URL('../../node_modules/.cache/node-compile', import.meta.url)),
);
await import('./main.ts');
