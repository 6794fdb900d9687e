import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Ends a process that is not our child: asks with SIGINT, insists with SIGQUIT after `patienceMs`, and
 * gives up after as long again. One that is gone by itself is as good.
 *
 * @throws Error when it is still there.
 */
export async function endProcess(pid: number, patienceMs: number): Promise<void> {
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
    send(pid, signal);
    if (await isGone(pid, patienceMs)) return;
  }
  throw new Error(`process ${pid} does not end: end it by hand`);
}

/** Whether there is such a process that we may send signals to. */
export function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function isGone(pid: number, patienceMs: number): Promise<boolean> {
  for (const end = Date.now() + patienceMs; alive(pid); await sleep(25)) {
    if (Date.now() > end) return false;
  }
  return true;
}

/** It may end by itself between two looks. */
function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // By shape, not class: the runtime's errors may come from another realm.
    const hasCode = typeof error === 'object' && error !== null && 'code' in error;
    if (!hasCode || error.code !== 'ESRCH') throw error;
  }
}
