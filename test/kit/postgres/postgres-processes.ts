import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

interface Row {
  readonly pid: number;
  readonly parent: number;
  readonly isPostgres: boolean;
}

/** The processes of the PostgreSQL that `parentPid` started: the server first, then its backends and helpers. */
export async function postgresOf(parentPid: number): Promise<number[]> {
  const { stdout } = await run('ps', ['-A', '-o', 'pid=,ppid=,comm=']);
  const rows = stdout.split('\n').map((line): Row => {
    const [pid, parent, name = ''] = line.trim().split(/\s+/);
    return { pid: Number(pid), parent: Number(parent), isPostgres: name.includes('postgres') };
  });
  const server = rows.find((row) => row.isPostgres && row.parent === parentPid);
  if (!server) throw new Error(`process ${parentPid} runs no PostgreSQL`);
  const children = rows.filter((row) => row.parent === server.pid);
  return [server.pid, ...children.map((row) => row.pid)];
}

/** Sends a signal to each process that still exists. */
export function signalAll(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch {
      // The process has exited, as backends do.
    }
  }
}
