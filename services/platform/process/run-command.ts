/**
 * Runs a command and prints its result. When the command fails, prints one line with the reason, and the exit status is
 * 1.
 */
export async function runCommand(name: string, work: () => Promise<string>): Promise<void> {
  try {
    process.stdout.write(`${await work()}\n`);
  } catch (error) {
    process.stderr.write(`${name}: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}
