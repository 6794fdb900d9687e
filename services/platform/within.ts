/**
 * Waits for `work`, but no longer than `ms` milliseconds.
 *
 * @returns whether the work finished in time. Work that is late goes on; its failure is then lost.
 * @throws what the work throws in time.
 */
export async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  // Not by a signal: an abort builds an error with a stack, and busy callers come here for each batch.
  const late = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => late.resolve(false), ms);
  try {
    return await Promise.race([work.then(() => true), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
