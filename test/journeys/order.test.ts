import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { OPERATIONS } from '../../services/contract/operations.ts';
import type { Received, Sent } from '../kit/gateway/rest-client.ts';
import {
  expectError,
  HOOK,
  MESSAGE,
  MISSING_ID,
  pathIn,
  RATE_LIMITED,
  raw,
  requestOf,
  SEGMENTS,
  TOO_LARGE,
  UNAUTHORIZED,
  WEBHOOK_REJECTED,
} from '../kit/journeys/expected-errors.ts';
import { firstOf, type Journey, startJourney } from '../kit/journeys/journey.ts';
import { until, untilLimited } from '../kit/until.ts';

let journey: Journey;
beforeAll(async () => {
  journey = await startJourney();
}, 120_000);
afterAll(() => journey?.stop(), 60_000);

interface Draft {
  segment: string;
  method: string;
  id: number;
  key: string;
  contentType: string;
  body: Record<string, unknown>;
  isLarge: boolean;
  isCut: boolean;
}

type Fault = (draft: Draft) => void;

/** All errors of an update of a webhook, in the order of the checks. */
const FAULTS: readonly (readonly [string, Fault])[] = [
  ['unknown version', (draft) => Object.assign(draft, { segment: '2026-08' })],
  ['wrong method', (draft) => Object.assign(draft, { method: 'PATCH' })],
  ['wrong key', (draft) => Object.assign(draft, { key: 'wrong' })],
  ['missing scope', (draft) => Object.assign(draft, { key: draft.key && keyOf('none') })],
  ['media type', (draft) => Object.assign(draft, { contentType: 'text/plain' })],
  ['size', (draft) => Object.assign(draft, { isLarge: true })],
  ['not JSON', (draft) => Object.assign(draft, { isCut: true })],
  ['schema', (draft) => Object.assign(draft.body, { topic: 'parcel' })],
  ['url', (draft) => Object.assign(draft.body, { url: 'ftp://example.com' })],
  ['existence', (draft) => Object.assign(draft, { id: MISSING_ID })],
];

const keyOf = (name: string) => journey.stack.shop.api_keys[name] ?? '';

async function updateWith(faults: readonly Fault[]): Promise<Received> {
  const draft: Draft = {
    segment: 'unstable',
    method: 'PUT',
    id: journey.stack.shop.fixtures.webhooks[0]?.id ?? 0,
    key: keyOf('all'),
    contentType: 'application/json',
    body: { ...HOOK },
    isLarge: false,
    isCut: false,
  };
  // The later error is applied first, so that the earlier one overwrites the parts that both change.
  for (const apply of faults.toReversed()) apply(draft);
  const json = JSON.stringify(draft.body);
  const padding = ' '.repeat(draft.isLarge ? 1024 * 1024 : 0);
  return journey.send({
    method: draft.method,
    path: pathIn(draft.segment, `/webhooks/${draft.id}`),
    key: draft.key,
    raw: `${padding}${draft.isCut ? json.slice(0, -1) : json}`,
    headers: { 'content-type': draft.contentType },
  });
}

describe('of two errors the earlier check decides the response', () => {
  const pairs = FAULTS.flatMap(([first, one], at) =>
    FAULTS.slice(at + 1).map(([second, other]) => ({ first, second, faults: [one, other] })),
  );

  test('each error alone has its own response', async () => {
    const answers = await Promise.all(FAULTS.map(([, fault]) => updateWith([fault])));
    const statuses = answers.map(({ status }) => status);
    expect(statuses).toEqual([404, 405, 401, 401, 415, 413, 400, 422, 422, 404]);
    const codes = answers.slice(1).map(({ body }) => (body as { code: string }).code);
    // A wrong key and a missing scope have the same response.
    expect(new Set(codes).size).toBe(FAULTS.length - 2);
  });

  test.each(pairs)('$first before $second', async ({ faults }) => {
    const [both, alone] = [await updateWith(faults), await updateWith(faults.slice(0, 1))];
    expect([both.status, both.body]).toEqual([alone.status, alone.body]);
  });

  test('the rate limit is checked after the scope and before the body', async () => {
    const key = keyOf('limited');
    const good = `/api/v1/warehouse/return/details?return_id=${firstOf(journey.stack.shop, 'open').id}`;
    await untilLimited(async () => {
      await journey.stack.control('POST', '/limits/reset');
      for (let nth = 0; nth < 5; nth += 1) await journey.send({ path: good, key });
      return journey.send({ path: good, key });
    });
    const fraud = (body: string, headers = {}): Sent => ({
      ...raw('/api/v1/returns/1/fraud-report', body, headers),
      key,
    });
    const later = [
      { path: good.replace(/\d+$/, 'abc'), key },
      fraud('{}', { 'content-type': 'text/plain' }),
      fraud(' '.repeat(1024 * 1024 + 2)),
      fraud('{'),
      fraud('{"category":"rude"}'),
    ];
    for (const sent of later) expectError(await journey.send(sent), '2026-07', RATE_LIMITED);
    const scope = await journey.send({ path: '/api/v1/cart', key, json: { cart: [1] } });
    expectError(scope, '2026-07', UNAUTHORIZED);
    expect((await journey.send({ path: good, method: 'PUT', key })).status).toBe(405);
  });
});

describe.each(SEGMENTS)('in /api/%s, served by %s', (segment, version) => {
  test('the 61st rejected credential of an address in a minute gets 429', async () => {
    const ip = `198.51.100.${SEGMENTS.findIndex(([name]) => name === segment) + 1}`;
    const headers = { 'x-forwarded-for': `192.0.2.99, ${ip}` };
    const path = pathIn(segment, '/webhooks');
    for (let nth = 0; nth < 60; nth += 1) {
      const { status } = await journey.send({ path, key: 'wrong', headers });
      expect([nth, status]).toEqual([nth, 401]);
    }
    expectError(await journey.send({ path, key: 'wrong', headers }), version, RATE_LIMITED);
    // A missing credential is not counted, a valid one still works, and other addresses are not affected.
    expect((await journey.send({ path, key: null, headers })).status).toBe(401);
    expect((await journey.send({ path, headers })).status).toBe(200);
    const other = { 'x-forwarded-for': '198.51.100.200' };
    expect((await journey.send({ path, key: 'wrong', headers: other })).status).toBe(401);
  });

  test('a body of dispositions may have 32 MiB', async () => {
    const path = pathIn(segment, '/dispositioning/assess');
    const large = Buffer.alloc(32 * 1024 * 1024 + 1, ' ');
    expectError(await journey.send(raw(path, large)), version, TOO_LARGE);
  });
});

describe('an unavailable service', () => {
  const NEEDS = {
    returns: [
      'listReturns',
      ...['getReturnDetails', 'processReturn', 'createFraudReport', 'assessDispositions'],
      'listEffects',
      ...['recordLabel', 'updateLabel', 'recordGiftCard', 'gradeItems'],
    ],
    dispositions: ['assessDispositions', 'gradeItems'],
    destinations: ['listDestinations', 'getDestination', 'updateDestination'],
    fraud: ['createFraudReport'],
    carts: ['createCart', 'getCart'],
    webhooks: OPERATIONS.filter(({ tag }) => tag === 'Webhooks').map(({ id }) => id),
  };
  const UNAVAILABLE = {
    status: 503,
    body: MESSAGE,
    code: 'SERVICE_UNAVAILABLE',
    headers: { 'retry-after': expect.stringMatching(/^[1-9]\d*$/) },
  };

  test.each(Object.entries(NEEDS))('%s: 503 with Retry-After', async (service, needing) => {
    await journey.stack.control('POST', `/services/${service}/stop`);
    for (const operation of OPERATIONS.filter(({ id }) => needing.includes(id))) {
      for (const [segment, version] of SEGMENTS) {
        const sent = requestOf(operation, 1);
        const answer = await journey.send({ ...sent, path: pathIn(segment, sent.path) });
        expectError(answer, version, UNAVAILABLE);
        expect(answer.text).not.toMatch(/ECONN|127\.0\.0\.1|grpc/i);
      }
    }
    await journey.stack.control('POST', `/services/${service}/start`);
  });

  test('works again soon after it is back', async () => {
    const { id } = firstOf(journey.stack.shop, 'open');
    const calls: Sent[] = [
      { path: `/api/v1/warehouse/return/details?return_id=${id}` },
      { path: '/api/v1/cart', json: { cart: [1] } },
      { path: '/api/v1/webhooks' },
    ];
    for (const sent of calls)
      await until(async (see) => see((await journey.send(sent)).status) === 200);
  });
});

test('a shop can have 100 webhooks and no more', async () => {
  const key = journey.stack.otherShop.api_keys.developer_tools ?? '';
  // Each has its own host, because a host may have at most five active ones.
  const create = (segment: string, host: number) =>
    journey.send({
      path: pathIn(segment, '/webhooks'),
      json: { ...HOOK, url: `https://hooks-${host}.example.com/x` },
      key,
    });
  const created = await Promise.all(
    Array.from({ length: 99 }, (_, host) => create('2026-10', host)),
  );
  expect(created.filter(({ status }) => status === 201)).toHaveLength(99);
  for (const [segment, version] of SEGMENTS) {
    expectError(await create(segment, 99), version, WEBHOOK_REJECTED);
  }
});
