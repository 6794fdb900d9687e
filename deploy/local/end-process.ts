import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Ends a process that is not our child: with SIGINT, and with SIGQUIT after `timeoutMs`. After the same time again it
 * gives up. A process that does not exist counts as ended.
 *
 * @throws Error when the process still runs.
 */
export async function endProcess(pid: number, timeoutMs: number): Promise<void> {
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
    send(pid, signal);
    if (await isGone(pid, timeoutMs)) return;
  }
  throw new Error(`process ${pid} does not end: end it by hand`);
}

/** Ends a child process with `signal`, and with `insist` when it has not ended in time. Resolves when it has ended. */
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

/** Whether a process with this id exists that we may send signals to. */
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

/** Sends a signal. The process may have ended already. */
function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // Checks properties instead of the class, because the error may come from another realm.
    const hasCode = typeof error === 'object' && error !== null && 'code' in error;
    if (!hasCode || error.code !== 'ESRCH') throw error;
  }
}
