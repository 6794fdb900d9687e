import { readFile } from 'node:fs/promises';
import { COMPILE_CACHE } from '../../kit/jest/compile-cache.ts';
import { type NodeOptions, type NodeProcess, startNode } from '../../kit/process.ts';
import { waitFor } from '../wait.ts';

const FREEZE_MS = 30_000;
const STOP_MS = 30_000;

export interface ServiceProcessOptions extends NodeOptions {
  /** The name in logs and reports, such as `returns-1`. */
  readonly name: string;
  readonly env: Readonly<Record<string, string>>;
  /** The log file of both output streams, over all restarts. */
  readonly logFile: string;
}

/** A process of the system that may be killed and started again, with the same environment and ports. */
export interface ServiceProcess {
  readonly name: string;
  readonly logFile: string;
  readonly env: Readonly<Record<string, string>>;
  /** @throws Error when the process does not run. */
  pid(): number;
  isRunning(): boolean;
  /** @param moreArgs added before the other arguments, only for this start. */
  start(moreArgs?: readonly string[]): void;
  /** Sends SIGSTOP. Resolves when the process is frozen. */
  freeze(): Promise<void>;
  thaw(): void;
  /** Sends SIGKILL, also to a frozen process. Resolves when the process has exited. */
  kill(): Promise<void>;
  /** Sends SIGTERM, and SIGKILL when that takes too long. Returns the exit code. */
  stop(): Promise<number | null>;
}

/** Creates a process. It runs after `start`, and is killed together with this process. */
export function serviceProcess(o: ServiceProcessOptions): ServiceProcess {
  let running: NodeProcess | undefined;
  const isRunning = (): boolean => running !== undefined && !running.hasExited();
  const life = (): NodeProcess => {
    if (!running || running.hasExited()) throw new Error(`${o.name} does not run`);
    return running;
  };

  return {
    name: o.name,
    logFile: o.logFile,
    env: o.env,
    pid: () => life().pid,
    isRunning,
    start(moreArgs = []) {
      if (isRunning()) throw new Error(`${o.name} runs already`);
      const env = { NODE_COMPILE_CACHE: COMPILE_CACHE, ...o.env };
      running = startNode({ ...o, args: [...moreArgs, ...o.args], env, stopMs: STOP_MS });
    },
    async freeze() {
      const { pid } = life();
      process.kill(pid, 'SIGSTOP');
      const look = async () => (await stateOf(pid)) === 'T';
      await waitFor(look, { what: `${o.name} is frozen`, withinMs: FREEZE_MS, everyMs: 0 });
    },
    thaw: () => life().signal('SIGCONT'),
    async kill() {
      await running?.kill();
    },
    async stop() {
      return running ? (await running.stop()).code : null;
    },
  };
}

/** The state of a process, a letter of proc(5): `R`, `S`, `D`, `T` … */
async function stateOf(pid: number): Promise<string | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The name before the state is in parentheses and may contain any character.
  return text.slice(text.lastIndexOf(')') + 2)[0];
}
