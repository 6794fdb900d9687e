/**
 * Keeps what happens a thousand times from being a thousand log lines.
 *
 * @param everyMs the least time between two lines. Milliseconds.
 * @returns a function that calls `write` at once or not at all; `count` is how often it was called since
 *   the last line, this call included.
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
