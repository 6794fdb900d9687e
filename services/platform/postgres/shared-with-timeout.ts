import { deadline } from '../process/deadlines.ts';
import { within } from '../process/within.ts';

/** Time limit of a query for a metric. Prometheus waits only several seconds for `/metrics`. Milliseconds. */
const TIMEOUT_MS = deadline(2_000);

/**
 * Wraps a query whose result is a metric. Parallel calls share one query. When the query takes too long, the result is
 * undefined, so that a hanging database does not delay the other metrics.
 */
export function sharedWithTimeout<T>(query: () => Promise<T>): () => Promise<T | undefined> {
  let running: Promise<T> | undefined;
  return async () => {
    running ??= query().finally(() => {
      running = undefined;
    });
    let result: T | undefined;
    const isInTime = await within(
      TIMEOUT_MS,
      running.then((value) => {
        result = value;
      }),
    );
    return isInTime ? result : undefined;
  };
}
