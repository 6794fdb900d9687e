import { fileURLToPath } from 'node:url';
import { startNode } from '../kit/process.ts';

/** Time limit for a client on a busy machine. Milliseconds. */
const TIMEOUT_MS = 150_000;
const FOLDER = fileURLToPath(new URL('./node_modules/@modelcontextprotocol/', import.meta.url));

/** The main files of programs of other projects. */
export const CONFORMANCE = `${FOLDER}conformance/dist/index.js`;
export const INSPECTOR = `${FOLDER}inspector/clients/launcher/build/index.js`;

export interface ClientRun {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a program in a separate process.
 *
 * @param o.home a folder in which it may write files.
 * @param o.onOutput called with the whole output so far, each time there is more.
 */
export async function runClient(
  program: string,
  args: readonly string[],
  o: { readonly home: string; readonly onOutput?: (soFar: string) => void },
): Promise<ClientRun> {
  const client = startNode({
    args: [program, ...args],
    cwd: process.cwd(),
    env: { PATH: process.env.PATH, HOME: o.home, NO_COLOR: '1' },
  });
  client.child.stdout?.on('data', () => o.onOutput?.(client.output('stdout')));
  const overdue = setTimeout(() => client.signal('SIGTERM'), TIMEOUT_MS);
  const { code } = await client.exited;
  clearTimeout(overdue);
  return { code, stdout: client.output('stdout'), stderr: client.output('stderr') };
}
