import { expect, test } from '@jest/globals';
import { murmur2 } from './murmur2.ts';

// The expected values of Kafka's own tests, before the sign is dropped.
test.each([
  ['21', -973932308],
  ['foobar', -790332482],
  ['a-little-bit-long-string', -985981536],
  ['a-little-bit-longer-string', -1486304829],
  ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
  ['abc', 479470107],
])('murmur2 of %s is that of Kafka’s clients', (text, signed) => {
  expect(murmur2(text)).toBe(signed & 0x7fffffff);
});
