import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { COMPILE_CACHE } from '../../kit/jest/compile-cache.ts';
import { waitFor } from '../wait.ts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const FREEZE_MS = 30_000;
const STOP_MS = 30_000;

export interface ServiceProcessOptions {
  /** Its name in logs and reports, such as `returns-1`. */
  readonly name: string;
  /** What node runs, with its arguments, from the root of the repository. */
  readonly args: readonly string[];
  /** All of its environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Where both of its streams go, over all its lives. */
  readonly logFile: string;
}

/** A process of the system that may be killed and started again, with the same environment and ports. */
export interface ServiceProcess {
  readonly name: string;
  readonly logFile: string;
  readonly env: Readonly<Record<string, string>>;
  /** @throws Error when it does not run. */
  pid(): number;
  isRunning(): boolean;
  /** @param moreArgs put before the other arguments, for this life only. */
  start(moreArgs?: readonly string[]): void;
  /** SIGSTOP. Resolves when the process is frozen. */
  freeze(): Promise<void>;
  thaw(): void;
  /** SIGKILL, frozen or not; resolves once it is gone. */
  kill(): Promise<void>;
  /** SIGTERM, and SIGKILL when that takes too long. Answers the exit code. */
  stop(): Promise<number | null>;
}

/** It runs only after `start`, and is killed together with the process that created it. */
export function serviceProcess(o: ServiceProcessOptions): ServiceProcess {
  let child: ChildProcess | undefined;
  const killWithUs = (): void => {
    child?.kill('SIGKILL');
  };
  process.once('exit', killWithUs);

  const isRunning = (): boolean =>
    child !== undefined && child.exitCode === null && child.signalCode === null;
  const pid = (): number => {
    if (!isRunning() || child?.pid === undefined) throw new Error(`${o.name} does not run`);
    return child.pid;
  };

  return {
    name: o.name,
    logFile: o.logFile,
    env: o.env,
    pid,
    isRunning,
    start(moreArgs = []) {
      if (isRunning()) throw new Error(`${o.name} runs already`);
      const log = openSync(o.logFile, 'a');
      child = spawn(process.execPath, [...moreArgs, ...o.args], {
        cwd: ROOT,
        env: { NODE_COMPILE_CACHE: COMPILE_CACHE, ...o.env },
        stdio: ['ignore', log, log],
      });
      closeSync(log);
    },
    async freeze() {
      const stopped = pid();
      process.kill(stopped, 'SIGSTOP');
      const look = async () => (await stateOf(stopped)) === 'T';
      await waitFor(look, { what: `${o.name} is frozen`, withinMs: FREEZE_MS, everyMs: 0 });
    },
    thaw: () => void process.kill(pid(), 'SIGCONT'),
    async kill() {
      if (!child || !isRunning()) return;
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    },
    async stop() {
      if (!child || !isRunning()) return child?.exitCode ?? null;
      const gone = once(child, 'exit');
      child.kill('SIGCONT');
      child.kill('SIGTERM');
      const overdue = setTimeout(() => child?.kill('SIGKILL'), STOP_MS);
      await gone;
      clearTimeout(overdue);
      return child.exitCode;
    },
  };
}

/** The letter of proc(5): `R`, `S`, `D`, `T` … */
async function stateOf(pid: number): Promise<string | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The name before it is in parentheses and may contain anything.
  return text.slice(text.lastIndexOf(')') + 2)[0];
}
