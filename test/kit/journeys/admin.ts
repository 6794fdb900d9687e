import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { TestStack } from '../stack.ts';

/** Longest run of one command on a busy machine. Milliseconds. */
const PATIENCE_MS = 60_000;

/**
 * Runs `npm run admin -- …` against a stack, like an operator.
 *
 * @returns its output.
 * @throws when it fails.
 */
export async function admin(
  stack: Pick<TestStack, 'path'>,
  ...args: readonly string[]
): Promise<string> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['gateway/admin/main.ts', '--stack', stack.path, ...args],
    { env: { ...process.env, NODE_OPTIONS: '' }, timeout: PATIENCE_MS },
  );
  return stdout;
}
