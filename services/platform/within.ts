/**
 * Waits for `work`, but no longer than `ms` milliseconds.
 *
 * @returns whether the work finished in time. Late work continues; a late failure is ignored.
 * @throws the error of work that fails in time.
 */
export async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  // An AbortSignal would create an error with a stack on each abort, which is too slow for busy callers.
  const late = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => late.resolve(false), ms);
  try {
    return await Promise.race([work.then(() => true), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
