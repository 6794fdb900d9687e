import { within } from './within.ts';

/** Well below what a scrape of the metrics may take. Milliseconds. */
const PATIENCE_MS = 2_000;

/**
 * A question whose answer is a metric: asked once at a time, and given up when it takes long, so that a
 * database that hangs does not hold up every other figure. Undefined when it was given up.
 */
export function askedInTime<T>(ask: () => Promise<T>): () => Promise<T | undefined> {
  let asking: Promise<T> | undefined;
  return async () => {
    asking ??= ask().finally(() => {
      asking = undefined;
    });
    let answer: T | undefined;
    const isInTime = await within(
      PATIENCE_MS,
      asking.then((given) => {
        answer = given;
      }),
    );
    return isInTime ? answer : undefined;
  };
}
