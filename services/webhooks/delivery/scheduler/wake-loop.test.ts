import { expect, test } from '@jest/globals';
import { until } from '../../../../test/support/until.ts';
import { createLogger } from '../../../platform/log.ts';
import { startWakeLoop } from './wake-loop.ts';

const logger = createLogger({ service: 'test', level: 'silent' });
/** Longer than any test: nothing is done by itself. Milliseconds. */
const NEVER_MS = 10_000_000;

test('a wake-up that comes while a step runs is followed by another step', async () => {
  let steps = 0;
  let end = (): void => {};
  const loop = startWakeLoop({
    name: 'test',
    logger,
    async step() {
      steps += 1;
      if (steps === 1) await new Promise<void>((done) => (end = done));
      return NEVER_MS;
    },
  });
  await until(() => steps === 1);
  loop.wake();
  end();
  await until(() => steps === 2);
  await loop.stop();
  expect(steps).toBe(2);
});
