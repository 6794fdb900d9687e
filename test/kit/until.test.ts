import { expect, test } from '@jest/globals';
import { StopWaitingError, until } from './until.ts';

test('returns the first value that is neither false nor undefined', async () => {
  const values = [false, undefined, 0];
  expect(await until(() => values.shift())).toBe(0);
});

test('fails with the last seen value', async () => {
  let length = 0;
  const wait = until(
    (see) => {
      length += 1;
      return see(length) > 1_000;
    },
    { what: 'a long list', withinMs: 5, everyMs: 1 },
  );
  await expect(wait).rejects.toThrow(/^not within \d+ ms: a long list; last seen: \d+$/);
});

test('an error ends the wait, unless the caller allows errors', async () => {
  const fails = () => {
    throw new Error('no connection');
  };
  await expect(until(fails)).rejects.toThrow('no connection');
  const retried = until(fails, { withinMs: 5, despiteErrors: true });
  await expect(retried).rejects.toMatchObject({ cause: { message: 'no connection' } });
  const stopped = until(
    () => {
      throw new StopWaitingError('it has ended');
    },
    { despiteErrors: true },
  );
  await expect(stopped).rejects.toThrow('it has ended');
});
