import { nowMs, waitFor } from '../wait.ts';
import type { Trial } from './trial.ts';

/** Waits until everything stored before that moment has arrived. Answers how long it took. Milliseconds. */
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
  await waitFor(isThere, { what: 'what was stored has arrived', withinMs, everyMs: 50 });
  return nowMs() - began;
}
