/**
 * Waits for `work`, but no longer than `ms` milliseconds.
 *
 * @returns whether the work finished in time. Late work continues, and its failure is ignored.
 * @throws the failure of the work in time.
 */
export async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  // No AbortSignal: an abort creates an error with a stack, and busy callers get here for each batch.
  const late = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => late.resolve(false), ms);
  try {
    return await Promise.race([work.then(() => true), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
