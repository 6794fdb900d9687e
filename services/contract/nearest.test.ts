import { describe, expect, test } from '@jest/globals';
import { nearest } from './nearest.ts';

const REPLAY = ['kind', 'webhook_id', 'url', 'topic', 'trigger', 'states', 'return_id', 'from'];
const WEBHOOK = ['topic', 'trigger', 'url', 'status'];
const RETURNS = ['state', 'label_status', 'archived', 'updated_from', 'updated_to', 'limit'];

describe('the nearest name', () => {
  test.each([
    ['webhook', REPLAY, 'webhook_id'],
    ['webhookId', REPLAY, 'webhook_id'],
    ['triger', REPLAY, 'trigger'],
    ['stat', RETURNS, 'state'],
    ['status', RETURNS, 'state'],
    ['updated_since', RETURNS, 'updated_from'],
    ['overlap', ['overlap_hours'], 'overlap_hours'],
    ['Limit', RETURNS, 'limit'],
    // All words of one name are in the other.
    ['hours', ['overlap_hours'], 'overlap_hours'],
    ['callback_url', WEBHOOK, 'url'],
    ['webhookUrl', WEBHOOK, 'url'],
    // Names of other APIs.
    ['endpoint', WEBHOOK, 'url'],
    ['eventType', WEBHOOK, 'trigger'],
    ['enabled', WEBHOOK, 'status'],
    ['since', REPLAY, 'from'],
    ['id', REPLAY, 'webhook_id'],
    ['items', ['cart', 'shopify'], 'cart'],
  ])('of %s among %j is %s', (name, known, expected) => {
    expect(nearest(name, known)).toBe(expected);
  });

  test.each(['colour', 'x', '', '1', 'x'.repeat(10_000)])('of %j does not exist', (name) => {
    expect(nearest(name, REPLAY)).toBeUndefined();
  });
});
