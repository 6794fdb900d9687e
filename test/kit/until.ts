import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { DEADLINE_SCALE } from '../../services/platform/process/deadlines.ts';

/** Default time limit. Milliseconds. */
const TIMEOUT_MS = 20_000;

/** One check counts as at most this long, because a frozen process has not really waited. Milliseconds. */
const MAX_CHECK_MS = 200;

/** The condition did not become true in time. `cause` is the last error of the condition, if it threw. */
class OverdueError extends Error {
  override readonly name = 'OverdueError';
}

/** A condition throws it when it can never become true. It ends the wait. */
export class StopWaitingError extends Error {
  override readonly name = 'StopWaitingError';
}

type Maybe<T> = T | false | undefined;

/** Records a value for the error message, and returns it. */
export type See = <V>(value: V) => V;

/** `until((see) => see(list.length) === 3)` fails with the last length. */
export type Condition<T> = (see: See) => Maybe<T> | Promise<Maybe<T>>;

export interface Wait {
  /** What the caller waits for, for the error message. By default the text of the condition. */
  readonly what?: string;
  /** Unless it is by the clock, DEADLINE_SCALE multiplies it. Milliseconds. */
  readonly withinMs?: number;
  /** Pause between two checks. Milliseconds. */
  readonly everyMs?: number;
  /** Counts real time. By default only the time in which this process ran counts, because most tests do not measure speed. */
  readonly byTheClock?: boolean;
  /** Whether errors mean "not yet". By default an error ends the wait. A StopWaitingError always ends it. */
  readonly despiteErrors?: boolean;
}

/**
 * Waits for a condition and returns its value.
 *
 * @param wait options, or the time limit in milliseconds.
 * @throws OverdueError with the last seen value when the time is over.
 */
export async function until<T>(
  condition: Condition<T>,
  wait: number | Wait = {},
  pauseMs = 10,
): Promise<T> {
  const o: Wait = typeof wait === 'number' ? { withinMs: wait } : wait;
  const { everyMs = pauseMs } = o;
  const withinMs = (o.withinMs ?? TIMEOUT_MS) * (o.byTheClock ? 1 : DEADLINE_SCALE);
  let seen: unknown;
  let failure: unknown;
  const see: See = (value) => {
    seen = value;
    return value;
  };
  let waitedMs = 0;
  for (let last = performance.now(); ; ) {
    try {
      failure = undefined;
      const value = await condition(see);
      if (value !== false && value !== undefined) return value;
    } catch (error) {
      if (!o.despiteErrors || error instanceof StopWaitingError) throw error;
      failure = error;
    }
    const now = performance.now();
    waitedMs += o.byTheClock ? now - last : Math.min(now - last, MAX_CHECK_MS);
    last = now;
    if (waitedMs >= withinMs) {
      const lastSeen = seen === undefined ? '' : `; last seen: ${inspect(seen, { depth: 3 })}`;
      const message = `not within ${withinMs} ms: ${o.what ?? condition}${lastSeen}`;
      throw new OverdueError(message, failure === undefined ? {} : { cause: failure });
    }
    await sleep(everyMs);
  }
}

const DAY_MS = 86_400_000;
/** A test of a daily limit is over in this time. Less than the time limit of {@link until}. Milliseconds. */
const DAY_LEFT_MS = 15_000;

/** Waits for the next day (UTC) when this one is about to end, so that a daily limit does not begin again in the test. */
export async function untilDayLasts(): Promise<void> {
  await until(() => DAY_MS - (Date.now() % DAY_MS) > DAY_LEFT_MS);
}
