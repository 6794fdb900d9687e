/**
 * Waits for `work`, but at most `ms` milliseconds.
 *
 * @returns whether the work ended in time. Work that is late continues, and its failure is ignored.
 * @throws the error of the work, when it fails in time.
 */
export async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  // No AbortSignal: each abort creates an error with a stack, which is too slow for busy callers.
  const late = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => late.resolve(false), ms);
  try {
    return await Promise.race([work.then(() => true), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
