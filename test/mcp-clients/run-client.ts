import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

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
  const child = spawn(process.execPath, [program, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: PATIENCE_MS,
    env: { PATH: process.env.PATH ?? '', HOME: o.home, NO_COLOR: '1' },
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk) => {
    stdout += chunk;
    o.onOutput?.(stdout);
  });
  child.stderr.on('data', (chunk) => {
    stderr += chunk;
  });
  await once(child, 'close');
  return { code: child.exitCode, stdout, stderr };
}
