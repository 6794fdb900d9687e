import { setTimeout as sleep } from 'node:timers/promises';

/** Waits for a fact. Throws when it does not come true in time. Milliseconds. */
export async function until(
  isTrue: () => boolean | Promise<boolean>,
  timeoutMs = 15_000,
): Promise<void> {
  const end = Date.now() + timeoutMs;
  while (!(await isTrue())) {
    if (Date.now() > end) throw new Error(`not so after ${timeoutMs} ms: ${isTrue}`);
    await sleep(10);
  }
}
