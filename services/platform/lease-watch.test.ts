import { expect, test } from '@jest/globals';
import { createLeaseWatch } from './lease-watch.ts';

const TTL_MS = 3_000;
const HOUR_MS = 3_600_000;

/** Checks the lease of one process, `laterMs` later by the monotonic clock. */
function newWatch() {
  const watch = createLeaseWatch(TTL_MS);
  return (expiresAt: string, endsInMs: number, laterMs = 0): boolean => {
    const lease = { name: 'relay/process/a', owner: 'a', expiresAt, endsInMs };
    return watch.dead([lease], performance.now() + laterMs).length > 0;
  };
}

test.each([
  ['back', HOUR_MS],
  ['forward', -HOUR_MS],
  ['forward by a lease', -TTL_MS],
])('a process that renews its lease lives, although the clock was set %s', (_, stepMs) => {
  const isDead = newWatch();
  expect(isDead('first', TTL_MS)).toBe(false);
  expect(isDead('first', TTL_MS - 600 + stepMs)).toBe(false);
  expect(isDead('renewed', TTL_MS)).toBe(false);
  expect(isDead('renewed', TTL_MS - 600, 10 * TTL_MS)).toBe(false);
});

test.each([
  ['back', HOUR_MS],
  ['forward', -HOUR_MS],
])('a process that renews it no more is dead, although the clock was set %s', (_, stepMs) => {
  const isDead = newWatch();
  expect(isDead('first', TTL_MS)).toBe(false);
  expect(isDead('first', TTL_MS - 600 + stepMs)).toBe(false);
  expect(isDead('first', stepMs, TTL_MS / 2)).toBe(true);
});

test('a lease that was watched until it expired counts as dead immediately', () => {
  const isDead = newWatch();
  expect(isDead('first', TTL_MS)).toBe(false);
  expect(isDead('first', -1, TTL_MS)).toBe(true);
});

test('a new process trusts the stored end of a lease that has just ended, but of no other', () => {
  expect(newWatch()('first', -1)).toBe(true);
  expect(newWatch()('first', -2 * TTL_MS)).toBe(false);
  expect(newWatch()('first', HOUR_MS)).toBe(false);
});
