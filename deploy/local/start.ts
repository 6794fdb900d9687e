import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

// `npm start`. What was compiled is kept beside the packages: the next start is sooner there.
enableCompileCache(
  fileURLToPath(new URL('../../node_modules/.cache/node-compile', import.meta.url)),
);
await import('./main.ts');
