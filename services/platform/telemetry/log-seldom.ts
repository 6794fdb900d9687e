/**
 * Limits how often a frequent event is logged.
 *
 * @param everyMs minimum time between two lines. Milliseconds.
 * @returns a function that calls `write` immediately or not at all. `count` is the number of calls since the last line,
 *   including this one.
 */
export function logSeldom(everyMs: number): (write: (count: number) => void) => void {
  let writtenAtMs = Number.NEGATIVE_INFINITY;
  let count = 0;
  return (write) => {
    count += 1;
    if (performance.now() < writtenAtMs + everyMs) return;
    writtenAtMs = performance.now();
    write(count);
    count = 0;
  };
}

/**
 * Writes the first lines of each second, and then counts.
 *
 * @param writeCount writes how many lines were left out; called at most once a second.
 * @returns a function that calls `write` immediately or not at all.
 */
export function logFirst(
  perSecond: number,
  writeCount: (count: number) => void,
): (write: () => void) => void {
  let secondEndsAt = Number.NEGATIVE_INFINITY;
  let written = 0;
  let left = 0;
  const end = (): void => {
    if (left > 0) writeCount(left);
    left = 0;
  };
  return (write) => {
    const now = performance.now();
    if (now >= secondEndsAt) {
      secondEndsAt = now + 1_000;
      written = 0;
    }
    if (written < perSecond) {
      written += 1;
      return write();
    }
    if (left === 0) setTimeout(end, secondEndsAt - now).unref();
    left += 1;
  };
}
