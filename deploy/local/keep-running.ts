import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { endChild } from './end-process.ts';

/** A server that ends more often than this within a minute has a fault that starting it again does not mend. */
const MAX_RESTARTS = 10;
const WINDOW_MS = 60_000;
/** What its processes held may take a while to be free. Milliseconds. */
const TRY_FOR_MS = 60_000;
const PAUSE_MS = 250;

export interface KeptServer {
  /** Of the process that runs at present. */
  readonly pid: number;
  /** Ends it for good: by `signal`, and by SIGQUIT when it is still there after `patienceMs`. May be called twice. */
  end(signal: NodeJS.Signals, patienceMs: number): Promise<void>;
}

export interface KeepOptions {
  /** As told to people. */
  readonly name: string;
  /** Resolves when the server is ready; rejects when it is not, having ended it. */
  readonly start: () => Promise<ChildProcess>;
  /** Told each line; without it a server that ends stays down. */
  readonly onRestart?: ((line: string) => void) | undefined;
}

/**
 * Starts a server and, where wanted, starts it again whenever it ends without being asked to, at most
 * ten times a minute. It is ended with this process.
 *
 * @throws what the first start throws.
 */
export async function keepRunning(o: KeepOptions): Promise<KeptServer> {
  let server = await o.start();
  let ending = false;
  let restarting: Promise<void> = Promise.resolve();
  let restarts: number[] = [];

  const tell = (line: string): void => o.onRestart?.(`${o.name} ${line}`);
  const watch = (): void => {
    const child = server;
    child.once('exit', (code, signal) => {
      if (ending || !o.onRestart) return;
      restarting = restart(`ended by itself (${signal ?? `status ${code}`})`);
    });
  };
  const restart = async (what: string): Promise<void> => {
    const now = performance.now();
    restarts = [...restarts.filter((at) => now - at < WINDOW_MS), now];
    if (restarts.length > MAX_RESTARTS) {
      return tell(`${what} for the ${restarts.length}th time within a minute: it stays down`);
    }
    tell(`${what}: starting it again`);
    while (!ending) {
      try {
        server = await o.start();
        watch();
        return tell(`is back after ${Math.round(performance.now() - now)} ms`);
      } catch (error) {
        if (performance.now() - now > TRY_FOR_MS) {
          return tell(`stays down: ${error instanceof Error ? error.message : String(error)}`);
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
    async end(signal, patienceMs) {
      ending = true;
      process.removeListener('exit', killWithUs);
      await restarting;
      await endChild(server, { signal, insist: 'SIGQUIT', patienceMs });
    },
  };
}
