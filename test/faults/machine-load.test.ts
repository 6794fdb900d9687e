import { expect, test } from '@jest/globals';
import { IDLE_MACHINE, watchMachineLoad } from './machine-load.ts';

test('the slowdown is at least 1, and has a maximum', () => {
  const load = watchMachineLoad();
  load.stop();
  expect(load.factor()).toBeGreaterThanOrEqual(1);
  expect(load.factor()).toBeLessThanOrEqual(2);
  expect(IDLE_MACHINE.factor()).toBe(1);
});
