import { expect, test } from '@jest/globals';
import { cameEarly } from './early.ts';

const pausesMs = [5_000, 30_000];

test.each([
  ['the pauses passed by themselves', [0, 5_000, 35_000], [], []],
  ['the clock was moved over the rest', [0, 2_010], [{ at: 10, ms: 3_000 }], []],
  ['it came before the rest had passed', [0, 1_990], [{ at: 10, ms: 3_000 }], [2]],
  ['it came before the move', [0, 4_990], [{ at: 4_995, ms: 3_000 }], [2]],
  ['the move ran into the next pause', [0, 5_000, 32_000], [{ at: 5_001, ms: 3_000 }], []],
  [
    'a move in an earlier pause counts there alone',
    [0, 2_000, 29_000],
    [{ at: 1, ms: 3_000 }],
    [3],
  ],
])('%s', (_name, times, advances, expected) => {
  expect(cameEarly(times, { advances, pausesMs })).toEqual(expected);
});
