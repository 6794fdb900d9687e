import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

// `npm start`. The compile cache is stored in node_modules and makes the next start faster. It works for modules that are
// loaded from here on, so this file imports nothing else of ours statically.
enableCompileCache(
  fileURLToPath(new URL('../../node_modules/.cache/node-compile', import.meta.url)),
);

const { readExternalSystems, readOptions } = await import('./options.ts');
const options = readOptions(process.argv);

const [{ runMain }, { startStack }] = await Promise.all([
  import('../../services/platform/process/run-main.ts'),
  import('./stack.ts'),
]);
await runMain('npm start', async () => startStack(options, readExternalSystems()), {
  finishStart: true,
});
