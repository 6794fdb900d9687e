import { setTimeout as sleep } from 'node:timers/promises';

/** Waiting longer makes no sense, because the fact cannot become true any more. */
export class HopelessError extends Error {
  override readonly name = 'HopelessError';
}

/** A fact did not become true in time. */
export class OverdueError extends Error {
  override readonly name = 'OverdueError';
}

export interface Wait {
  /** What is waited for, for the message. */
  readonly what: string;
  /** Milliseconds. */
  readonly withinMs: number;
  /** Pause between two checks. Milliseconds; 20 by default. */
  readonly everyMs?: number;
}

/**
 * Waits until `look` returns something other than undefined or false, and returns that.
 *
 * @throws OverdueError when it does not in time; HopelessError when `look` throws that. Other errors count as "not
 *   yet".
 */
export async function waitFor<T>(
  look: () => Promise<T | undefined | false> | T | undefined | false,
  { what, withinMs, everyMs = 20 }: Wait,
): Promise<T> {
  const end = performance.now() + withinMs;
  let last: unknown;
  do {
    try {
      const found = await look();
      if (found !== undefined && found !== false) return found;
      last = undefined;
    } catch (error) {
      if (error instanceof HopelessError) throw error;
      last = error;
    }
    await sleep(everyMs);
  } while (performance.now() < end);
  throw new OverdueError(`not within ${withinMs} ms: ${what}`, { cause: last });
}

/** Milliseconds since the epoch with fractions, comparable between the processes of one machine. */
export function nowMs(): number {
  return performance.timeOrigin + performance.now();
}
