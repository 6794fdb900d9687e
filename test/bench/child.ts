import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Methods } from './ipc.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const STOP_MS = 40_000;
const MOST_OUTPUT_BYTES = 64 * 1024 ** 2;
const runFile = promisify(execFile);
/** The end of a process's output, for the message when it ends early. Characters. */
const OUTPUT_TAIL = 8_000;

export interface NodeProcess {
  readonly name: string;
  readonly pid: number;
  output(): string;
  hasEnded(): boolean;
  /** Asks it to end, and insists. */
  stop(): Promise<void>;
}

export interface StartOptions {
  readonly name: string;
  /** The program, from the root of the repository, with its arguments. */
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts a Node process with these environment variables and no others. It dies with this one. */
export function startProcess(o: StartOptions): NodeProcess {
  return handleOf(o.name, launch(o, false));
}

/** A process that answers calls; see `serveParent`. */
export interface Worker<M extends Methods> extends NodeProcess {
  call<K extends keyof M & string>(
    method: K,
    ...input: Parameters<M[K]>
  ): Promise<Awaited<ReturnType<M[K]>>>;
  onTold(listener: (value: number) => void): void;
}

/** Starts a process of the bench itself. `M` is the type of its methods. */
export function startWorker<M extends Methods>(o: StartOptions): Worker<M> {
  const child = launch(o, true);
  const handle = handleOf(o.name, child);
  const waiting = new Map<number, { resolve(value: never): void; reject(error: Error): void }>();
  const listeners: ((value: number) => void)[] = [];
  let last = 0;
  child.on(
    'message',
    (message: { id?: number; value?: never; error?: string; received?: number }) => {
      if (message.received !== undefined)
        for (const listener of listeners) listener(message.received);
      const call = waiting.get(message.id ?? 0);
      waiting.delete(message.id ?? 0);
      if (message.error !== undefined) call?.reject(new Error(`${o.name}: ${message.error}`));
      else call?.resolve(message.value as never);
    },
  );
  child.once('exit', () => {
    for (const { reject } of waiting.values()) {
      reject(new Error(`${o.name} ended:\n${handle.output()}`));
    }
  });
  return {
    ...handle,
    call(method, ...[input]) {
      last += 1;
      const id = last;
      return new Promise((resolve, reject) => {
        waiting.set(id, { resolve, reject });
        child.send({ id, method, input });
      });
    },
    onTold: (listener) => void listeners.push(listener),
  };
}

function launch(o: StartOptions, hasChannel: boolean): ChildProcess {
  const child = spawn(process.execPath, ['--inspect-port=127.0.0.1:0', ...o.args], {
    cwd: ROOT,
    env: { ...o.env },
    stdio: ['ignore', 'pipe', 'pipe', ...(hasChannel ? (['ipc'] as const) : [])],
    serialization: 'advanced',
  });
  const killWithUs = () => child.kill('SIGKILL');
  process.once('exit', killWithUs);
  child.once('exit', () => process.removeListener('exit', killWithUs));
  return child;
}

function handleOf(name: string, child: ChildProcess): NodeProcess {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-OUTPUT_TAIL);
    });
  }
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  return {
    name,
    pid: child.pid ?? 0,
    output: () => output,
    hasEnded,
    async stop() {
      if (hasEnded()) return;
      const gone = once(child, 'exit');
      if (child.connected) child.disconnect();
      else child.kill('SIGTERM');
      const overdue = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
      await gone;
      clearTimeout(overdue);
    },
  };
}

/** What a program wrote, and how it ended. */
export interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  /** Undefined when a signal ended it. */
  readonly status: number | undefined;
}

/** Runs a program of Node to its end, whatever its status. It is killed when this process ends. */
export async function runToEnd(
  args: readonly string[],
  o: { readonly cwd: string; readonly timeoutMs: number },
): Promise<Ended> {
  const running = runFile(process.execPath, args, {
    ...{ cwd: o.cwd, timeout: o.timeoutMs, maxBuffer: MOST_OUTPUT_BYTES },
  });
  const endWithUs = () => running.child.kill('SIGTERM');
  process.once('exit', endWithUs);
  try {
    return { ...(await running), status: 0 };
  } catch (error) {
    const { stdout = '', stderr = String(error), code } = Object(error);
    return { stdout, stderr, status: typeof code === 'number' ? code : undefined };
  } finally {
    process.removeListener('exit', endWithUs);
  }
}
