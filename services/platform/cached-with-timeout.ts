import { within } from './within.ts';

/** Well below the time limit of a scrape of the metrics. Milliseconds. */
const TIMEOUT_MS = 2_000;

/**
 * Wraps a query whose result is a metric. Parallel calls share one query. A query that takes too long resolves to
 * undefined, so that a hanging database does not delay the other metrics.
 */
export function cachedWithTimeout<T>(ask: () => Promise<T>): () => Promise<T | undefined> {
  let asking: Promise<T> | undefined;
  return async () => {
    asking ??= ask().finally(() => {
      asking = undefined;
    });
    let answer: T | undefined;
    const isInTime = await within(
      TIMEOUT_MS,
      asking.then((given) => {
        answer = given;
      }),
    );
    return isInTime ? answer : undefined;
  };
}
