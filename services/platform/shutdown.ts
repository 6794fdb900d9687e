import type { Logger } from './log.ts';

/** One thing to close; nothing when it was never opened. */
export type ShutdownStep = () => unknown;

/** Closes things in order. Each step is tried, whatever became of the one before; a failure is logged. */
export async function shutDown(logger: Logger, steps: readonly ShutdownStep[]): Promise<void> {
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      logger.error({ err: error }, 'a step of the shutdown failed');
    }
  }
  logger.info('stopped');
}
