import { fileURLToPath } from 'node:url';
import { startNode } from '../kit/process.ts';

/** Longest run of a client on a busy machine. Milliseconds. */
const PATIENCE_MS = 150_000;
const FOLDER = fileURLToPath(new URL('./node_modules/@modelcontextprotocol/', import.meta.url));

/** Programs of others, by where their entry lies. */
export const CONFORMANCE = `${FOLDER}conformance/dist/index.js`;
export const INSPECTOR = `${FOLDER}inspector/clients/launcher/build/index.js`;

export interface ClientRun {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a program in a process of its own.
 *
 * @param o.home where it may keep files.
 * @param o.onOutput told everything printed so far, each time more is.
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
  const overdue = setTimeout(() => client.signal('SIGTERM'), PATIENCE_MS);
  const { code } = await client.exited;
  clearTimeout(overdue);
  return { code, stdout: client.output('stdout'), stderr: client.output('stderr') };
}
