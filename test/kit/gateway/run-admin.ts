import type { Command } from 'commander';
import type { AdminContext } from '../../../gateway/admin/admin-context.ts';
import { adminProgram } from '../../../gateway/admin/commands.ts';
import { TEST_AUTHOR } from './test-gateway.ts';

/** The public address that commands print. */
export const PUBLIC_URL = 'https://returns.example.com';

const TEST_CONTEXT = { by: TEST_AUTHOR, effectiveAfterMs: 0, publicUrl: PUBLIC_URL };

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
    (work) => work({ ...context, ...TEST_CONTEXT, close: async () => {} }),
    (line) => lines.push(line),
  );
  for (const command of withSubcommands(program)) {
    command.exitOverride().configureOutput({ writeErr: () => {} });
  }
  await program.parseAsync([...words], { from: 'user' });
  return lines;
}

function withSubcommands(command: Command): Command[] {
  return [command, ...command.commands.flatMap(withSubcommands)];
}
