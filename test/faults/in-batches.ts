/**
 * Works on `size` items concurrently, then on the next ones. Returns the results in the order of the items. Stops at
 * the first failure.
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
