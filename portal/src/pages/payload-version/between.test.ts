import { create } from '@bufbuild/protobuf';
import { expect, test } from '@jest/globals';
import { GetPayloadVersionResponseSchema } from '../../../../proto/gen/rms/portal/v1/payload_version_pb.ts';
import { changedTopics, changeOf, olderVersion, otherVersion } from './between.ts';

const setting = (servedVersion: string) =>
  create(GetPayloadVersionResponseSchema, {
    servedVersion,
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
