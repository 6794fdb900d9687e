import { mkdir, writeFile } from 'node:fs/promises';
import { directoryPage } from './directory-page.ts';
import { serverJson } from './server-json.ts';
import { toolsPage } from './tools-page.ts';

const ROOT = new URL('../../../', import.meta.url);

/** The generated files, by path in the repository. */
export function generatedFiles(): ReadonlyMap<string, string> {
  return new Map([
    ['docs/mcp/tools.md', toolsPage()],
    ['docs/mcp/directory.md', directoryPage()],
    ['server.json', `${JSON.stringify(serverJson(), undefined, 2)}\n`],
  ]);
}

if (import.meta.main) {
  await mkdir(new URL('docs/mcp/', ROOT), { recursive: true });
  for (const [path, text] of generatedFiles()) await writeFile(new URL(path, ROOT), text);
}
