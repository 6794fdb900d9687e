/** Ctrl-C reaches every process of a terminal, and npm passes its own on as well: both are one wish. Milliseconds. */
const ECHO_MS = 500;

/**
 * Runs a process: starts it, and stops it in order on SIGTERM or SIGINT.
 *
 * A signal that arrives while it is starting is obeyed as soon as it has started. A second signal
 * ends the process at once. A fault ends it with status 1 and a message that says what is wrong, without a stack.
 */
export async function runMain(
  name: string,
  start: () => Promise<{ stop(): Promise<void> }>,
): Promise<void> {
  const fail = (error: unknown): never => {
    process.stderr.write(`${name}: ${messageOf(error)}\n`);
    process.exit(1);
  };
  process.once('uncaughtException', fail);
  process.once('unhandledRejection', fail);

  const asked = new Promise<void>((resolve) => {
    let firstAt: number | undefined;
    const onSignal = (signal: string): void => {
      const now = performance.now();
      const isEcho = signal === 'SIGINT' && now - (firstAt ?? now) < ECHO_MS;
      if (firstAt !== undefined && !isEcho) process.exit(1);
      firstAt ??= now;
      resolve();
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
  });

  try {
    const running = await start();
    await asked;
    await running.stop();
  } catch (error) {
    fail(error);
  }
  process.exit(0);
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : '';
  // An AggregateError of refused connections has no message of its own.
  const own =
    error instanceof AggregateError && !error.message ? error.errors.join('; ') : error.message;
  return `${own || error.name}${cause}`;
}
