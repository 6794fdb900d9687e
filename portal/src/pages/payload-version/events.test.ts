import { create } from '@bufbuild/protobuf';
import { expect, test } from '@jest/globals';
import { RecentEventSchema } from '../../../../proto/gen/rms/portal/v1/payload_version_pb.ts';
import { WebhookSchema } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { comparables } from './events.ts';

const event = (id: string, differs: boolean) =>
  create(RecentEventSchema, { id, trigger: 'return.updated', topics: ['return'], differs });
const webhook = (topic: string, trigger: string, delivers = true) =>
  create(WebhookSchema, { topic, trigger, delivers });

test('what differs is first: own events, then an example of each kind that a webhook is sent', () => {
  const found = comparables({
    events: [event('return:1', false), event('return:2', true)],
    webhooks: [
      webhook('label', 'label.created'),
      webhook('return', 'return.closed'),
      webhook('return', 'return.closed'),
      webhook('label', 'return.created', false),
    ],
    changed: new Set(['return']),
  });
  expect(found.map(({ id, differs }) => [id, differs])).toEqual([
    ['return:2', true],
    ['example:return.closed', true],
    ['example:return.updated', true],
    ['return:1', false],
    ['example:label.created', false],
  ]);
});

test('a kind that several topics deliver is compared first in one that differs', () => {
  const [first] = comparables({
    events: [],
    webhooks: [webhook('label', 'label.created'), webhook('return', 'label.created')],
    changed: new Set(['return']),
  });
  expect(first).toMatchObject({ id: 'example:label.created', topics: ['return', 'label'] });
});
