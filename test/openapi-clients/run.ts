import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const HERE = fileURLToPath(new URL('.', import.meta.url));
export const DOCUMENTS = fileURLToPath(new URL('../../docs/openapi/', import.meta.url));
const TIMEOUT_MS = 120_000;

/**
 * Runs a program in this folder, and returns what it printed.
 *
 * @param path relative to this folder, or absolute.
 * @throws Error when it fails; its output is printed.
 */
export async function run(
  path: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const options = {
    cwd: HERE,
    env: { ...process.env, REDOCLY_TELEMETRY: 'off', NO_COLOR: '1', ...env },
    timeout: TIMEOUT_MS,
    maxBuffer: 64 * 1024 * 1024,
  };
  try {
    const program = path.startsWith('/') ? path : HERE + path;
    return (await promisify(execFile)(program, args, options)).stdout;
  } catch (error) {
    for (const stream of ['stdout', 'stderr']) {
      process.stderr.write(String(Reflect.get(Object(error), stream) ?? ''));
    }
    throw new Error(`${path} failed`, { cause: error });
  }
}
