import { isUnavailable } from '../../../services/platform/errors.ts';
import { StopWaitingError } from '../../kit/until.ts';
import type { System } from '../system/system.ts';
import { waitFor } from '../wait.ts';

/** For one call: a machine that does other things too may take long. Milliseconds. */
const CALL_MS = 20_000;
/** For all of its repeats. Milliseconds. */
const PATIENCE_MS = 120_000;
const PAUSE_MS = 200;

/**
 * Makes a call around a trial, and repeats it until it is answered, so it must be repeatable. Other checks cover the
 * product's promises to callers. Each repeat is logged.
 *
 * @param what names the call, for the message.
 * @throws StopWaitingError when it is rejected, OverdueError when it is never answered, each with the cause.
 */
export async function insist<T>(
  { say }: Pick<System, 'say'>,
  what: string,
  call: (options: { readonly timeoutMs: number }) => Promise<T>,
): Promise<T> {
  const tryIt = async (): Promise<{ readonly answer: T }> => {
    try {
      return { answer: await call({ timeoutMs: CALL_MS }) };
    } catch (error) {
      if (isUnavailable(error)) {
        say(`  ${what}: not answered, once more: ${String(error)}`);
        throw error;
      }
      throw new StopWaitingError(`${what}: refused`, { cause: error });
    }
  };
  const wait = { what, withinMs: PATIENCE_MS, everyMs: PAUSE_MS };
  return (await waitFor(tryIt, wait)).answer;
}
