import { within } from './within.ts';

/** Prometheus stops waiting for `/metrics` after several seconds. A query must end well before. Milliseconds. */
const TIMEOUT_MS = 2_000;

/**
 * Wraps a query whose result is a metric. Parallel calls share one query. A query that takes too long resolves to
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
