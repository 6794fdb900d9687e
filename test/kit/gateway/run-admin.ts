import type { AdminContext } from '../../../gateway/admin/admin-context.ts';
import { adminProgram } from '../../../gateway/admin/commands.ts';
import { TEST_AUTHOR } from './test-gateway.ts';

/**
 * Runs one admin command and returns the lines that it printed. A usage error is thrown and not printed.
 *
 * @param lines gets the lines, for a command that prints and then fails.
 */
export async function runAdmin(
  context: Pick<AdminContext, 'pool' | 'services'>,
  words: readonly string[],
  lines: string[] = [],
): Promise<string[]> {
  const program = adminProgram(
    (work) => work({ ...context, by: TEST_AUTHOR, effectiveAfterMs: 0, close: async () => {} }),
    (line) => lines.push(line),
  );
  const commands = [program, ...program.commands.flatMap((one) => [one, ...one.commands])];
  for (const command of commands) {
    command.exitOverride().configureOutput({ writeErr: () => {} });
  }
  await program.parseAsync([...words], { from: 'user' });
  return lines;
}
