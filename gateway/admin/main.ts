import { openAdminContext } from './admin-context.ts';
import { adminProgram } from './commands.ts';
import { explain } from './explain.ts';

const program = adminProgram(
  async (work, stackFile) => {
    const context = await openAdminContext(process.env, stackFile);
    try {
      await work(context);
    } finally {
      await context.close();
    }
  },
  (line) => process.stdout.write(`${line}\n`),
);

// `… | head` has read enough.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});

try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`admin: ${explain(error)}\n`);
  process.exitCode = 1;
}
