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
