import { expect, test } from '@jest/globals';
import { cameEarly } from './early.ts';

const pausesMs = [5_000, 30_000];

test.each([
  ['all pauses passed in real time', [0, 5_000, 35_000], [], []],
  ['the clock was advanced over the rest of a pause', [0, 2_010], [{ at: 10, ms: 3_000 }], []],
  [
    'an attempt arrived before the rest of its pause had passed',
    [0, 1_990],
    [{ at: 10, ms: 3_000 }],
    [2],
  ],
  ['an attempt arrived before the advance', [0, 4_990], [{ at: 4_995, ms: 3_000 }], [2]],
  ['the advance also shortened the next pause', [0, 5_000, 32_000], [{ at: 5_001, ms: 3_000 }], []],
  ['an advance counts only in its own pause', [0, 2_000, 29_000], [{ at: 1, ms: 3_000 }], [3]],
])('%s', (_name, times, advances, expected) => {
  expect(cameEarly(times, { advances, pausesMs })).toEqual(expected);
});
