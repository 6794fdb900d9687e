import { jest } from '@jest/globals';

/** Runs `work` while the monotonic clock of this process is ahead by so much. Milliseconds. */
export async function later<T>(aheadMs: number, work: () => Promise<T>): Promise<T> {
  const now = performance.now.bind(performance);
  const clock = jest.spyOn(performance, 'now').mockImplementation(() => now() + aheadMs);
  return work().finally(() => clock.mockRestore());
}
