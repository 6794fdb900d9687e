/**
 * Like `Promise.all`, with two differences: it waits for all promises, and it rejects with the failure that is first in
 * the list, not first in time. When statements depend on one another, the first failed statement in the list has the
 * cause.
 */
export async function allInOrder<const T extends readonly unknown[]>(
  promises: readonly [...{ [K in keyof T]: Promise<T[K]> }],
): Promise<T> {
  await Promise.allSettled(promises);
  const values: unknown[] = [];
  for (const promise of promises) values.push(await promise);
  return values as readonly unknown[] as T;
}

/**
 * Waits for a value that may not be needed. Returns a function that returns the value, or throws why there is none.
 */
export async function ifNeeded<T>(promise: Promise<T>): Promise<() => T> {
  const [outcome] = await Promise.allSettled([promise]);
  return () => {
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  };
}
