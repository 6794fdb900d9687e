import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { endChild } from '../end-process.ts';

/** A server that exits more often than this within a minute is not started again. */
const MAX_RESTARTS = 10;
const WINDOW_MS = 60_000;
/** Time limit for a restart. Ports and files of the exited process may stay in use for a while. Milliseconds. */
const TRY_FOR_MS = 60_000;
const PAUSE_MS = 250;

export interface KeptServer {
  readonly pid: number;
  /** Stops it permanently: with `signal`, and with SIGQUIT after `timeoutMs`. May be called twice. */
  end(signal: NodeJS.Signals, timeoutMs: number): Promise<void>;
}

export interface KeepOptions {
  readonly name: string;
  /** Starts the server. Resolves when it is ready. Stops it and rejects when it does not become ready. */
  readonly start: () => Promise<ChildProcess>;
  /** Called with messages about restarts. Without it, a server that exits is not started again. */
  readonly onRestart?: ((line: string) => void) | undefined;
}

/**
 * Starts a server and, with `onRestart`, restarts it when it exits unexpectedly, at most ten times per minute. The server
 * stops with this process.
 *
 * @throws the error of the first start.
 */
export async function keepRunning(o: KeepOptions): Promise<KeptServer> {
  let server = await o.start();
  let ending = false;
  let restarting: Promise<void> = Promise.resolve();
  let restarts: number[] = [];

  const report = (line: string): void => o.onRestart?.(`${o.name} ${line}`);
  const watch = (): void => {
    const child = server;
    child.once('exit', (code, signal) => {
      if (ending || !o.onRestart) return;
      restarting = restart(`exited unexpectedly (${signal ?? `status ${code}`})`);
    });
  };
  const restart = async (what: string): Promise<void> => {
    const now = performance.now();
    restarts = [...restarts.filter((at) => now - at < WINDOW_MS), now];
    if (restarts.length > MAX_RESTARTS) {
      return report(
        `${what} for the ${restarts.length}th time within a minute: it is not started again`,
      );
    }
    report(`${what}: starting it again`);
    while (!ending) {
      try {
        server = await o.start();
        watch();
        return report(`is ready again after ${Math.round(performance.now() - now)} ms`);
      } catch (error) {
        if (performance.now() - now > TRY_FOR_MS) {
          return report(
            `could not be started again: ${error instanceof Error ? error.message : String(error)}`,
          );
        }
        await sleep(PAUSE_MS);
      }
    }
  };
  const killWithUs = () => server.kill('SIGQUIT');
  process.once('exit', killWithUs);
  watch();

  return {
    get pid() {
      return server.pid ?? 0;
    },
    async end(signal, timeoutMs) {
      ending = true;
      process.removeListener('exit', killWithUs);
      await restarting;
      await endChild(server, { signal, insist: 'SIGQUIT', timeoutMs });
    },
  };
}
