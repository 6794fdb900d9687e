import { createRequire } from 'node:module';
import { expect, test } from '@jest/globals';
import { keepMembership } from './kafka-membership.ts';

test('the library still has the two methods to replace, and they are replaced once', () => {
  const group = createRequire(import.meta.url)('kafkajs/src/consumer/consumerGroup.js');
  const { heartbeat, joinAndSync } = group.prototype;
  keepMembership();
  const replaced = { ...methods(group) };
  expect(replaced.heartbeat).not.toBe(heartbeat);
  expect(replaced.joinAndSync).not.toBe(joinAndSync);
  keepMembership();
  expect(methods(group)).toEqual(replaced);
});

function methods(group: { prototype: { heartbeat: unknown; joinAndSync: unknown } }) {
  const { heartbeat, joinAndSync } = group.prototype;
  return { heartbeat, joinAndSync };
}
