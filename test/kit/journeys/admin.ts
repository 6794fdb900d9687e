import { runToSuccess } from '../process.ts';
import type { TestStack } from '../stack.ts';

/**
 * Runs `npm run admin -- …` against a stack, like an operator.
 *
 * @returns its output.
 * @throws when it fails.
 */
export function admin(stack: Pick<TestStack, 'path'>, ...args: readonly string[]): Promise<string> {
  return runToSuccess({
    args: ['gateway/admin/main.ts', '--stack', stack.path, ...args],
    env: { ...process.env, NODE_OPTIONS: '' },
  });
}
