import { create } from '@bufbuild/protobuf';
import { expect, test } from '@jest/globals';
import {
  GetPayloadVersionResponseSchema,
  RecentEventSchema,
} from '../../../../proto/gen/rms/portal/v1/payloads_pb.ts';
import { SubscriptionSchema } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { changedTopics, changeOf, comparables, olderVersion, otherVersion } from './changes.ts';

const setting = (version: string) =>
  create(GetPayloadVersionResponseSchema, {
    version,
    versions: [
      { version: '2027-01', selectable: true, changedTopics: ['label'] },
      { version: '2026-10', selectable: true, changedTopics: ['return'] },
      { version: '2026-07', selectable: false },
    ],
  });

test.each([
  ['2026-07', '2026-10', ['return']],
  ['2026-10', '2026-07', ['return']],
  ['2026-10', '2027-01', ['label']],
  ['2026-07', '2027-01', ['label', 'return']],
  ['2026-10', '2026-10', []],
])('between %s and %s the payloads of %j change', (one, other, topics) => {
  expect([...changedTopics(setting('2026-10'), one, other)]).toEqual(topics);
});

test.each([
  ['2026-10', undefined, '2027-01'],
  ['2027-01', undefined, undefined],
  ['2027-01', '2026-10', '2026-10'],
  ['2026-10', '2026-07', '2027-01'],
  ['2026-10', '2026-10', '2027-01'],
])('a shop with %s that chose %s looks at %s', (served, chosen, other) => {
  expect(otherVersion(setting(served), chosen)).toBe(other);
});

test('an older version is offered only while payloads can have it', () => {
  expect(olderVersion(setting('2027-01'))).toBe('2026-10');
  expect(olderVersion(setting('2026-10'))).toBeUndefined();
});

test.each([
  ['the version of before', '2026-07', '2027-01', { from: '2026-07', to: '2026-10', isMade: true }],
  ['its own version', '2026-10', '2027-01', { from: '2026-10', to: '2027-01', isMade: false }],
  ['no version', 'x', undefined, undefined],
])('an address that names %s says which change is shown', (_name, former, other, change) => {
  expect(changeOf(setting('2026-10'), { former, other })).toEqual(change);
});

const event = (id: string, differs: boolean) =>
  create(RecentEventSchema, { id, trigger: 'return.updated', topics: ['return'], differs });
const webhook = (topic: string, trigger: string, delivers = true) =>
  create(SubscriptionSchema, { topic, trigger, delivers });

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
