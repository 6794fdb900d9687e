import { nowMs, waitFor } from '../wait.ts';
import type { Trial } from './trial.ts';

/** Waits until all events that were stored before `since` have arrived, and returns how long that took. Milliseconds. */
export async function untilCaughtUp(
  { ledger }: Trial,
  before: number,
  withinMs: number,
): Promise<number> {
  const began = nowMs();
  const isThere = async (): Promise<boolean> => {
    await ledger.refresh();
    return ledger.missing().every(({ at }) => at > before);
  };
  await waitFor(isThere, { what: 'all stored events have arrived', withinMs, everyMs: 50 });
  return nowMs() - began;
}
