import { attemptsPassedOn } from '../system/logs.ts';
import type { System } from '../system/system.ts';
import { waitFor } from '../wait.ts';

/** A process that still stands says so when it goes on. Milliseconds. */
const SAID_MS = 10_000;

/**
 * Whether so many repeats, or more, are told of by processes that stood still for longer than their leases:
 * others had their endpoints by then, and made their attempts again. Not when there are none.
 */
export async function isPassedOn(
  { folder }: Pick<System, 'folder'>,
  sinceMs: number,
  repeats: number,
  withinMs = SAID_MS,
): Promise<boolean> {
  if (repeats === 0) return false;
  const look = async () => (await attemptsPassedOn(folder, sinceMs)) >= repeats;
  const what = `${repeats} attempts were passed on`;
  return waitFor(look, { what, withinMs }).catch(() => false);
}
