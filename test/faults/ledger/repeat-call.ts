import { isUnavailable } from '../../../services/platform/values/errors.ts';
import { StopWaitingError } from '../../kit/until.ts';
import type { System } from '../system/system.ts';
import { waitFor } from '../wait.ts';

/** Time limit of one call on a busy machine. Milliseconds. */
const CALL_MS = 20_000;
/** Time limit of all repeats. Milliseconds. */
const TIMEOUT_MS = 120_000;
const PAUSE_MS = 200;

/**
 * Makes a call before or after a trial, and repeats it until there is a response. The call must be repeatable. Logs each
 * repeat.
 *
 * @param what the name of the call in messages.
 * @throws StopWaitingError when the service rejects the call, OverdueError when there is no response, each with the cause.
 */
export async function repeatCall<T>(
  { say }: Pick<System, 'say'>,
  what: string,
  call: (options: { readonly timeoutMs: number }) => Promise<T>,
): Promise<T> {
  const tryIt = async (): Promise<{ readonly answer: T }> => {
    try {
      return { answer: await call({ timeoutMs: CALL_MS }) };
    } catch (error) {
      if (isUnavailable(error)) {
        say(`  ${what}: no response, repeating it: ${String(error)}`);
        throw error;
      }
      throw new StopWaitingError(`${what}: refused`, { cause: error });
    }
  };
  const wait = { what, withinMs: TIMEOUT_MS, everyMs: PAUSE_MS };
  return (await waitFor(tryIt, wait)).answer;
}
