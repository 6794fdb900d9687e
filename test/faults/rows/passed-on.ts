import { attemptsPassedOn } from '../system/logs.ts';
import type { System } from '../system/system.ts';
import { waitFor } from '../wait.ts';

/** A process logs it at most this long after it continues. Milliseconds. */
const LOG_MS = 10_000;

/**
 * Whether processes that were frozen for longer than their leases have logged at least this many dropped results. Then
 * other processes took over their endpoints and repeated their attempts. False without repeats.
 */
export async function isPassedOn(
  { folder }: Pick<System, 'folder'>,
  sinceMs: number,
  repeats: number,
  withinMs = LOG_MS,
): Promise<boolean> {
  if (repeats === 0) return false;
  const hasLogged = async () => (await attemptsPassedOn(folder, sinceMs)) >= repeats;
  const what = `${repeats} attempts were passed on`;
  return waitFor(hasLogged, { what, withinMs }).catch(() => false);
}
