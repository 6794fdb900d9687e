import { runToSuccess } from '../process.ts';
import type { TestStack } from '../stack.ts';

/**
 * Runs `npm run admin -- …` for a stack, like an operator.
 *
 * @returns the output.
 * @throws Error when the command fails.
 */
export function admin(stack: Pick<TestStack, 'path'>, ...args: readonly string[]): Promise<string> {
  return runToSuccess({
    args: ['gateway/admin/main.ts', '--stack', stack.path, ...args],
    env: { ...process.env, NODE_OPTIONS: '' },
  });
}
