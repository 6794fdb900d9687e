import { endEarlyExit } from './early-exit.ts';
import { standardOutput } from './log-output.ts';

/** Ctrl-C reaches every process of a terminal, and npm forwards it too, so two signals may mean one. Milliseconds. */
const ECHO_MS = 500;
/** How long a stop waits for a slow reader of the last log lines. Milliseconds. */
const LAST_LINES_MS = 1_000;

/**
 * Runs a process: starts it, and stops it gracefully on SIGTERM or SIGINT.
 *
 * A signal during the start ends the process at once: it has accepted no work, and what it leased expires. A second
 * signal ends it at once, too. An error ends it with status 1 and a message without a stack.
 *
 * @param o.finishStart a signal during the start takes effect after the start. For a process that starts others, which
 *   it must stop.
 */
export async function runMain(
  name: string,
  start: () => Promise<{ stop(): Promise<void> }>,
  o: { readonly finishStart?: boolean } = {},
): Promise<void> {
  // A missing reader of the output, or a full disk, must not end the process.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  const fail = (error: unknown): never => {
    // Tries once, because there is no time to wait for a reader.
    void standardOutput().drain(0);
    try {
      process.stderr.write(`${name}: ${messageOf(error)}\n`);
    } catch {
      // There is no other place to report it.
    }
    process.exit(1);
  };
  process.once('uncaughtException', fail);
  process.once('unhandledRejection', fail);

  let isStarting = true;
  const asked = new Promise<void>((resolve) => {
    let firstAt: number | undefined;
    const onSignal = (signal: string): void => {
      if (isStarting && !o.finishStart) process.exit(0);
      const now = performance.now();
      const isEcho = signal === 'SIGINT' && now - (firstAt ?? now) < ECHO_MS;
      if (firstAt !== undefined && !isEcho) process.exit(1);
      firstAt ??= now;
      resolve();
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
    endEarlyExit();
  });

  try {
    const running = await start();
    isStarting = false;
    await asked;
    await running.stop();
    await standardOutput().drain(LAST_LINES_MS);
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
