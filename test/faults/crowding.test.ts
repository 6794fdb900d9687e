import { expect, test } from '@jest/globals';
import { ALONE, watchCrowding } from './crowding.ts';

test('a machine is never faster than alone, and never blamed without bounds', () => {
  const crowding = watchCrowding();
  crowding.stop();
  expect(crowding.factor()).toBeGreaterThanOrEqual(1);
  expect(crowding.factor()).toBeLessThanOrEqual(2);
  expect(ALONE.factor()).toBe(1);
});
