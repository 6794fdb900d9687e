import { standardOutput } from '../telemetry/log-output.ts';
import { endEarlyExit } from './early-exit.ts';

/** Ctrl-C reaches every process of a terminal, and npm forwards it again, so a second signal within this time is a
 *  duplicate. Milliseconds. */
const DUPLICATE_SIGNAL_MS = 500;
/** How long a stop waits for a slow reader of the last log lines. Milliseconds. */
const LAST_LINES_MS = 1_000;

/**
 * Runs a process: starts it, and stops it gracefully on SIGTERM or SIGINT.
 *
 * A signal during the start ends the process immediately. It has accepted no work, and its leases expire. A second
 * signal also ends the process immediately. An error ends it with status 1, and with a message without a stack.
 *
 * @param o.finishStart true: a signal during the start has its effect only after the start. For a process that starts
 *   others and must stop them.
 */
export async function runMain(
  name: string,
  start: () => Promise<{ stop(): Promise<void> }>,
  o: { readonly finishStart?: boolean } = {},
): Promise<void> {
  // When the reader of the output is missing or the disk is full, the process must continue.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  const fail = (error: unknown): never => {
    // Try to write the waiting lines once. There is no time to wait for a reader.
    void standardOutput().drain(0);
    try {
      process.stderr.write(`${name}: ${messageOf(error)}\n`);
    } catch {
      // Ignore the error. There is no other place to report it.
    }
    process.exit(1);
  };
  process.once('uncaughtException', fail);
  process.once('unhandledRejection', fail);

  let isStarting = true;
  const stopRequested = new Promise<void>((resolve) => {
    let firstAt: number | undefined;
    const onSignal = (signal: string): void => {
      if (isStarting && !o.finishStart) process.exit(0);
      const now = performance.now();
      const isDuplicate = signal === 'SIGINT' && now - (firstAt ?? now) < DUPLICATE_SIGNAL_MS;
      if (firstAt !== undefined && !isDuplicate) process.exit(1);
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
    await stopRequested;
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
  // Node's AggregateError of refused connections has no message.
  const own =
    error instanceof AggregateError && !error.message ? error.errors.join('; ') : error.message;
  return `${own || error.name}${cause}`;
}
