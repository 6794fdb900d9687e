import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface RunningProcess {
  readonly name: string;
  readonly exited: Promise<Exit>;
  /** What it wrote so far, both streams. */
  output(): string;
  hasExited(): boolean;
  signal(signal: NodeJS.Signals): void;
}

/**
 * Starts `node <file> …` as a pod would: these environment variables and no other, not even a PATH.
 * The node is the one that runs the tests. It is killed if the tests end before it.
 */
export function runProcess(
  name: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): RunningProcess {
  const child = spawn(process.execPath, [...args], {
    cwd: ROOT,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let hasExited = false;
  const read = (chunk: Buffer) => {
    output += chunk.toString();
  };
  child.stdout.on('data', read);
  child.stderr.on('data', read);
  const killWithUs = () => child.kill('SIGKILL');
  process.once('exit', killWithUs);
  const exited = new Promise<Exit>((done, fail) => {
    child.once('error', fail);
    // 'close' comes after the last of the output.
    child.once('close', (code, signal) => {
      hasExited = true;
      process.removeListener('exit', killWithUs);
      done({ code, signal });
    });
  });
  return {
    name,
    exited,
    output: () => output,
    hasExited: () => hasExited,
    signal: (signal) => child.kill(signal),
  };
}

/** Runs a command to its end and answers what it printed. @throws with its output when it fails. */
export async function runCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<string> {
  const command = runProcess(args[0] ?? '', args, env);
  const { code } = await command.exited;
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}:\n${command.output()}`);
  return command.output();
}
