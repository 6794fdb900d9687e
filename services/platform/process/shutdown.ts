import type { Logger } from '../telemetry/log.ts';

/** Closes one part. The step is undefined for a part that was never opened. */
export type ShutdownStep = () => unknown;

/** Runs the steps in order. Every step runs, even when an earlier one fails. Failures are logged. */
export async function shutDown(logger: Logger, steps: readonly ShutdownStep[]): Promise<void> {
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      logger.error({ err: error }, 'shutdown step failed');
    }
  }
  logger.info('stopped');
}
