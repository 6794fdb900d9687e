/**
 * Works on a number of items at a time, then on the next ones. Returns results in the order of the items. The first
 * failure ends it.
 */
export async function inBatches<T, U>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<U>,
): Promise<U[]> {
  const done: U[] = [];
  for (let at = 0; at < items.length; at += atOnce) {
    done.push(...(await Promise.all(items.slice(at, at + atOnce).map(work))));
  }
  return done;
}
