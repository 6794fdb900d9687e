import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { until } from './until.ts';

/** The root of the repository. */
export const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Longest graceful stop, unless another is given. Milliseconds. */
const STOP_MS = 40_000;
/** Of the output of a process, only the end is kept. Characters. */
const MOST_OUTPUT = 8_000_000;

export interface NodeOptions {
  /** What node runs, with its arguments, from the root of the repository. */
  readonly args: readonly string[];
  /** For messages; the first argument by default. */
  readonly name?: string;
  /** All of its environment. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** A file that its output is appended to. `output()` reads it. */
  readonly logFile?: string;
  /** Whether it gets a channel for messages. */
  readonly hasChannel?: boolean;
  /** Longest graceful stop. Milliseconds. */
  readonly stopMs?: number;
  /**
   * What it gets when this process exits before it; SIGKILL by default. With `nothing` it notices that its channel has
   * closed, and first stops what it started itself.
   */
  readonly endWithUs?: NodeJS.Signals | 'nothing';
}

export interface Exit {
  /** Null when a signal ended it. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface NodeProcess {
  readonly name: string;
  readonly pid: number;
  /** Its channel, if it has one. */
  readonly child: ChildProcess;
  /** Resolves after the last of its output. */
  readonly exited: Promise<Exit>;
  hasExited(): boolean;
  /** What it wrote so far, by default to both streams. */
  output(stream?: 'stdout' | 'stderr'): string;
  signal(signal: NodeJS.Signals): void;
  /** SIGKILL, frozen or not. Resolves when it is gone. */
  kill(): Promise<void>;
  /** Asks it to end, by closing its channel or with SIGTERM, and kills it when that takes too long. */
  stop(): Promise<Exit>;
}

/** Starts a node process, of the version that runs the tests. */
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
  const { endWithUs = 'SIGKILL' } = o;
  const endIt = () => void (endWithUs === 'nothing' || child.kill(endWithUs));
  process.once('exit', endIt);
  child.once('exit', () => process.removeListener('exit', endIt));
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
      // A frozen process does not get other signals.
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
      env: { ...o.env },
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
      while (size > MOST_OUTPUT) size -= pieces.shift()?.text.length ?? size;
    });
  }
  return (wanted) =>
    pieces
      .filter(({ stream }) => wanted === undefined || stream === wanted)
      .map(({ text }) => text)
      .join('');
}

/**
 * Waits for what a process does, such as a line of its output, and returns it.
 *
 * @throws Error with the output when the process ends before, or does not do it in time.
 */
export async function untilProcess<T>(
  running: NodeProcess,
  fact: () => T | false | undefined | Promise<T | false | undefined>,
  withinMs?: number,
): Promise<T> {
  try {
    return await until(async () => {
      const found = await fact();
      if (!found && running.hasExited()) throw new Error(`${running.name} has ended`);
      return found;
    }, withinMs);
  } catch (cause) {
    const { message } = cause as Error;
    throw new Error(`${running.name}: ${message}\n${running.output().slice(-20_000)}`, { cause });
  }
}

/** Runs node to its end, whatever its exit code. It is killed after `timeoutMs`. */
export async function runNode(
  o: NodeOptions & { readonly timeoutMs?: number },
): Promise<Exit & { readonly stdout: string; readonly stderr: string }> {
  const running = startNode(o);
  const overdue = o.timeoutMs && setTimeout(() => running.signal('SIGKILL'), o.timeoutMs);
  const exit = await running.exited;
  clearTimeout(overdue);
  return { ...exit, stdout: running.output('stdout'), stderr: running.output('stderr') };
}

/** Runs node to its end, and returns its output. @throws Error with the output when it fails. */
export async function runToSuccess(o: NodeOptions): Promise<string> {
  const { code, stdout, stderr } = await runNode(o);
  if (code !== 0) throw new Error(`${o.args.join(' ')} ended with ${code}:\n${stdout}${stderr}`);
  return `${stdout}${stderr}`;
}
