import type { OperationId } from '../operation.ts';

/** Bodies of replays by filter and backfills. */

const FROM = { from: '2026-11-20T10:00:00Z' };
const BACKFILL = { kind: 'backfill', webhook_id: 1 };
const TO = { to: '2026-11-21T00:00:00+01:00' };

/** Valid bodies: operation, what is special, body. */
export const ACCEPTED_REPLAYS: readonly [OperationId, string, object][] = [
  ['previewReplay', 'only a time', FROM],
  ['startReplay', 'nulls', { ...FROM, kind: null, webhook_id: null, url: null, states: null }],
  [
    'startReplay',
    'every field',
    {
      ...FROM,
      ...TO,
      kind: 'replay',
      webhook_id: 1,
      url: 'https://a.example/',
      topic: 'return',
      trigger: 'return.closed',
      states: ['exhausted'],
      return_id: 1,
    },
  ],
  ['startReplay', 'no states', { ...FROM, states: [] }],
  ['startReplay', 'a backfill', BACKFILL],
  ['previewReplay', 'a backfill of a time', { ...BACKFILL, ...FROM, ...TO, url: null }],
];

/** Bodies that break one rule: operation, body, message of the response. */
export const REFUSED_REPLAYS: readonly [OperationId, object, string][] = [
  ['startReplay', {}, 'from is required when kind is replay.'],
  ['previewReplay', { from: null }, 'from is required when kind is replay.'],
  ['startReplay', { ...FROM, kind: 'again' }, 'kind must be one of replay, backfill.'],
  [
    'startReplay',
    { from: 'yesterday' },
    'from must be an RFC 3339 date-time with a UTC offset, such as 2026-07-01T12:00:00+00:00.',
  ],
  ['startReplay', { ...FROM, to: FROM.from }, 'to must be after from.'],
  [
    'startReplay',
    { ...FROM, webhook_id: 0 },
    'webhook_id must be an integer from 1 to 9007199254740991.',
  ],
  ['startReplay', { ...FROM, states: 'exhausted' }, 'states must be a list.'],
  [
    'startReplay',
    { ...FROM, states: ['lost'] },
    'states[0] must be one of waiting, held, delivered, exhausted, expired, dropped.',
  ],
  [
    'startReplay',
    { ...FROM, states: Array(7).fill('held') },
    'states must have at most 6 entries.',
  ],
  ['startReplay', { ...FROM, url: 'x'.repeat(2_049) }, 'url must be at most 2048 characters.'],
  ['startReplay', { kind: 'backfill' }, 'webhook_id is required when kind is backfill.'],
  ['startReplay', { ...BACKFILL, states: [] }, 'states must be absent when kind is backfill.'],
  [
    'previewReplay',
    { ...BACKFILL, return_id: 1 },
    'return_id must be absent when kind is backfill.',
  ],
];
