import { adminProgram } from './commands.ts';
import { explain } from './explain.ts';
import { findSurroundings } from './surroundings.ts';

const program = adminProgram(
  async (work, stackFile) => {
    const surroundings = await findSurroundings(process.env, stackFile);
    try {
      await work(surroundings);
    } finally {
      await surroundings.close();
    }
  },
  (line) => process.stdout.write(`${line}\n`),
);

try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`admin: ${explain(error)}\n`);
  process.exitCode = 1;
}
