/**
 * What all of them resolve with. Where some fail, waits for all and rejects as the first does by their order, not
 * by time: of statements that depend on one another the first says why.
 */
export async function allInOrder<const T extends readonly unknown[]>(
  promises: readonly [...{ [K in keyof T]: Promise<T[K]> }],
): Promise<T> {
  await Promise.allSettled(promises);
  const values: unknown[] = [];
  for (const promise of promises) values.push(await promise);
  return values as readonly unknown[] as T;
}
