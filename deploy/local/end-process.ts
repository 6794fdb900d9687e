import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Stops a process that this process did not start: with SIGINT, and with SIGQUIT after `timeoutMs`. It gives up after
 * `timeoutMs` more. It does nothing when there is no such process.
 *
 * @throws Error when the process still runs.
 */
export async function endProcess(pid: number, timeoutMs: number): Promise<void> {
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
    send(pid, signal);
    if (await isGone(pid, timeoutMs)) return;
  }
  throw new Error(`process ${pid} does not end: stop it manually`);
}

/** Stops a child process with `signal`, and with `insist` after a time limit. Resolves when the process has exited. */
export async function endChild(
  child: ChildProcess,
  o: {
    readonly signal: NodeJS.Signals;
    readonly insist: NodeJS.Signals;
    /** Milliseconds. */
    readonly timeoutMs: number;
  },
): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((done) => child.once('exit', done));
  child.kill(o.signal);
  const overdue = setTimeout(() => child.kill(o.insist), o.timeoutMs);
  await gone;
  clearTimeout(overdue);
}

/** Whether this process may send signals to a process with this id, which therefore exists. */
export function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function isGone(pid: number, timeoutMs: number): Promise<boolean> {
  for (const end = Date.now() + timeoutMs; alive(pid); await sleep(25)) {
    if (Date.now() > end) return false;
  }
  return true;
}

/** Sends a signal. Does nothing when the process has exited. */
function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // Checks properties instead of the class, because the error may come from another realm.
    const hasCode = typeof error === 'object' && error !== null && 'code' in error;
    if (!hasCode || error.code !== 'ESRCH') throw error;
  }
}
