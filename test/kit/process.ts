import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { until } from './until.ts';

/** The root of the repository. */
export const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Maximum time of a graceful stop, unless the caller sets another. Milliseconds. */
const STOP_MS = 40_000;
/** Only the end of a process's output is kept. Characters. */
const MAX_OUTPUT = 8_000_000;

export interface NodeOptions {
  /** The arguments of node. It runs in the root of the repository. */
  readonly args: readonly string[];
  /** The name in messages. By default the first argument. */
  readonly name?: string;
  /** The whole environment. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** A file to which the output is appended. */
  readonly logFile?: string;
  /** Whether the process gets a channel for messages. */
  readonly hasChannel?: boolean;
  /** Maximum time of a graceful stop. Milliseconds. */
  readonly stopMs?: number;
  /**
   * The signal for the process when its parent exits first. SIGKILL by default. `nothing` sends none: the process notices
   * that its channel has closed, and first stops what it started itself.
   */
  readonly onParentExit?: NodeJS.Signals | 'nothing';
}

export interface Exit {
  /** Null when a signal ended the process. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface NodeProcess {
  readonly name: string;
  readonly pid: number;
  /** The channel, if there is one. */
  readonly child: ChildProcess;
  /** Resolves after the last output. */
  readonly exited: Promise<Exit>;
  hasExited(): boolean;
  /** The output so far, by default of both streams. */
  output(stream?: 'stdout' | 'stderr'): string;
  signal(signal: NodeJS.Signals): void;
  /** Sends SIGKILL, also to a frozen process. Resolves when the process has exited. */
  kill(): Promise<void>;
  /** Stops the process by closing its channel or with SIGTERM. Kills it when that takes too long. */
  stop(): Promise<Exit>;
}

/** Starts a node process with the node version that runs the tests. */
export function startNode(o: NodeOptions): NodeProcess {
  const name = o.name ?? o.args[0] ?? 'node';
  const child = launch(o);
  const { logFile } = o;
  const output = logFile === undefined ? collect(child) : () => readFileSync(logFile, 'utf8');
  const gone = new Promise<Exit>((done, fail) => {
    child.once('error', fail);
    child.once('exit', (code, signal) => done({ code, signal }));
  });
  const exited = new Promise<Exit>((done) => {
    child.once('close', (code, signal) => done({ code, signal }));
  });
  const hasExited = () => child.exitCode !== null || child.signalCode !== null;
  const { onParentExit = 'SIGKILL' } = o;
  const killIt = () => void (onParentExit === 'nothing' || child.kill(onParentExit));
  process.once('exit', killIt);
  child.once('exit', () => process.removeListener('exit', killIt));
  return {
    name,
    pid: child.pid ?? 0,
    child,
    exited,
    hasExited,
    output,
    signal: (signal) => void child.kill(signal),
    async kill() {
      child.kill('SIGKILL');
      await gone;
    },
    async stop() {
      if (hasExited()) return gone;
      // A frozen process receives no other signal.
      child.kill('SIGCONT');
      if (child.connected) child.disconnect();
      else child.kill('SIGTERM');
      const overdue = setTimeout(() => child.kill('SIGKILL'), o.stopMs ?? STOP_MS);
      return gone.finally(() => clearTimeout(overdue));
    },
  };
}

function launch(o: NodeOptions): ChildProcess {
  const log = o.logFile === undefined ? undefined : openSync(o.logFile, 'a', 0o600);
  const out = log ?? 'pipe';
  try {
    return spawn(process.execPath, [...o.args], {
      cwd: o.cwd ?? ROOT,
      env: { DEADLINE_SCALE: process.env.DEADLINE_SCALE, ...o.env },
      stdio: ['ignore', out, out, ...(o.hasChannel ? (['ipc'] as const) : [])],
      serialization: 'advanced',
    });
  } finally {
    if (log !== undefined) closeSync(log);
  }
}

function collect(child: ChildProcess): NodeProcess['output'] {
  const pieces: { readonly stream: string; readonly text: string }[] = [];
  let size = 0;
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream]?.setEncoding('utf8').on('data', (text: string) => {
      pieces.push({ stream, text });
      size += text.length;
      while (size > MAX_OUTPUT) size -= pieces.shift()?.text.length ?? size;
    });
  }
  return (wanted) =>
    pieces
      .filter(({ stream }) => wanted === undefined || stream === wanted)
      .map(({ text }) => text)
      .join('');
}

/**
 * Waits for a condition of a process, such as a line of its output, and returns its value.
 *
 * @throws Error with the output when the process exits first or the time is over.
 */
export async function untilProcess<T>(
  running: NodeProcess,
  condition: () => T | false | undefined | Promise<T | false | undefined>,
  withinMs?: number,
): Promise<T> {
  try {
    return await until(async () => {
      const found = await condition();
      if (!found && running.hasExited()) throw new Error(`${running.name} has ended`);
      return found;
    }, withinMs);
  } catch (cause) {
    const { message } = cause as Error;
    throw new Error(`${running.name}: ${message}\n${running.output().slice(-20_000)}`, { cause });
  }
}

/** Runs node until it exits, with any exit code. Kills it after `timeoutMs`. */
export async function runNode(
  o: NodeOptions & { readonly timeoutMs?: number },
): Promise<Exit & { readonly stdout: string; readonly stderr: string }> {
  const running = startNode(o);
  const overdue = o.timeoutMs && setTimeout(() => running.signal('SIGKILL'), o.timeoutMs);
  const exit = await running.exited;
  clearTimeout(overdue);
  return { ...exit, stdout: running.output('stdout'), stderr: running.output('stderr') };
}

/** Runs node until it exits, and returns its output. @throws Error with the output when it fails. */
export async function runToSuccess(o: NodeOptions): Promise<string> {
  const { code, stdout, stderr } = await runNode(o);
  if (code !== 0) throw new Error(`${o.args.join(' ')} ended with ${code}:\n${stdout}${stderr}`);
  return `${stdout}${stderr}`;
}
