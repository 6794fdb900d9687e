import { expect, test } from '@jest/globals';
import { until } from '../../../../test/kit/until.ts';
import { createLogger } from '../../../platform/log.ts';
import { createWakeLoop } from './wake-loop.ts';

const logger = createLogger({ service: 'test', level: 'silent' });
/** Longer than any test, so that no step runs without a wake. Milliseconds. */
const NEVER_MS = 10_000_000;

test('a wake during a step is followed by another step', async () => {
  let steps = 0;
  let end = (): void => {};
  const loop = createWakeLoop({ name: 'test', logger });
  loop.start(async () => {
    steps += 1;
    if (steps === 1) await new Promise<void>((done) => (end = done));
    return NEVER_MS;
  });
  await until(() => steps === 1);
  loop.wake();
  end();
  await until(() => steps === 2);
  await loop.stop();
  expect(steps).toBe(2);
});

test('a wake before the start is followed by a first step', async () => {
  let steps = 0;
  const loop = createWakeLoop({ name: 'test', logger });
  loop.wake();
  loop.start(async () => {
    steps += 1;
    return NEVER_MS;
  });
  await until(() => steps === 1);
  await loop.stop();
});
