import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { DeliveryState } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;

beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const PREVIEWS = '/api/v1/webhook-replay-previews';
const REPLAYS = '/api/v1/webhook-replays';
const TIME = '2026-11-20T10:00:00+00:00';
const FROM = { from: '2026-11-20T11:00:00+01:00' };
const webhook_id = Number(FAKE.webhook);
const NO_FILTER = { url: null, topic: null, trigger: null, return_id: null, to: null };
const running = {
  id: Number(FAKE.replay),
  kind: 'replay',
  state: 'running',
  filter: { ...NO_FILTER, webhook_id, states: ['exhausted'], from: TIME },
  total: 3,
  done: 1,
  skipped: 0,
  started_at: TIME,
  finished_at: null,
  error: null,
};

describe('a replay by filter', () => {
  test('has a preview that starts nothing', async () => {
    under.services.webhooks.startReplay = () => {
      throw new Error('started');
    };
    const { status, body } = await send({ path: PREVIEWS, json: { ...FROM, webhook_id } });
    expect([status, body]).toEqual([
      200,
      {
        kind: 'replay',
        matched: 5,
        more: false,
        replayable: 3,
        not_replayable: [{ reason: 'waiting', count: 2 }],
        oldest_at: TIME,
        newest_at: TIME,
      },
    ]);
  });

  test('starts with its filter, and is read and cancelled by its id', async () => {
    const json = {
      webhook_id,
      url: 'https://a.example/',
      topic: 'return',
      trigger: 'return.closed',
      states: ['exhausted', 'expired'],
      return_id: 11,
      ...FROM,
      to: '2026-11-21T00:00:00Z',
    };
    const started = await send({ path: REPLAYS, json });
    expect([started.status, started.body]).toEqual([
      201,
      { ...running, filter: { ...json, from: TIME, to: '2026-11-21T00:00:00+00:00' } },
    ]);
    const path = `${REPLAYS}/${FAKE.replay}`;
    expect((await send({ path })).body).toEqual(running);
    expect((await send({ method: 'POST', path: `${path}/cancel` })).body).toEqual({
      ...running,
      state: 'cancelled',
      finished_at: TIME,
    });
  });

  test('is sent to the service once per key; without a key every request counts', async () => {
    const requests: { key: string; states: readonly DeliveryState[] }[] = [];
    const { startReplay } = under.services.webhooks;
    under.services.webhooks.startReplay = (request, context) => {
      const { idempotencyKey: key, filter } = request;
      requests.push({ key, states: filter?.states ?? [] });
      if (!startReplay) throw new Error('no fake');
      return startReplay(request, context);
    };
    const start = (headers = {}) =>
      send({ path: REPLAYS, json: { ...FROM, states: ['held'] }, headers });
    for (const headers of [{ 'idempotency-key': 'k' }, { 'idempotency-key': 'k' }, {}, {}]) {
      expect((await start(headers)).status).toBe(201);
    }
    const [first, second, ...others] = requests.map(({ key }) => key);
    expect(second).toBe(first);
    expect(new Set([first, ...others]).size).toBe(3);
    expect(requests[0]?.states).toEqual([DeliveryState.HELD]);
  });

  test('that another job prevents is 409', async () => {
    under.services.webhooks.startReplay = () => {
      const text = 'another replay or backfill of the subscription is running';
      throw new DomainError(Code.FailedPrecondition, ErrorReason.STATE_FORBIDS, text);
    };
    expect(await send({ path: REPLAYS, json: FROM })).toMatchObject({
      status: 409,
      body: {
        errors: { message: 'Another replay or backfill of the subscription is running.' },
      },
    });
  });
});

describe('a backfill', () => {
  const json = { kind: 'backfill', webhook_id };

  test('has a preview of the stored events', async () => {
    expect((await send({ path: PREVIEWS, json })).body).toEqual({
      kind: 'backfill',
      matched: 7,
      more: false,
      replayable: 7,
      not_replayable: [],
      oldest_at: TIME,
      newest_at: TIME,
    });
  });

  test('starts', async () => {
    const { status, body } = await send({ path: REPLAYS, json });
    expect([status, body]).toEqual([
      201,
      {
        ...running,
        kind: 'backfill',
        filter: {
          ...NO_FILTER,
          webhook_id,
          states: [],
          topic: 'return',
          trigger: 'return.closed',
          from: TIME,
          to: TIME,
        },
      },
    ]);
  });
});

test.each([PREVIEWS, REPLAYS])('%s counts as ten requests', async (path) => {
  const key = await under.newKey({ restPerMinute: 25 });
  const statuses = [];
  for (const _ of [1, 2, 3]) statuses.push((await send({ path, json: FROM, key })).status);
  expect(statuses.map((status) => status < 300)).toEqual([true, true, false]);
  expect(statuses[2]).toBe(429);
});

test.each([PREVIEWS, REPLAYS])('%s names a webhook of this shop', async (path) => {
  for (const kind of ['replay', 'backfill']) {
    const response = await send({ path, json: { ...FROM, kind, webhook_id: 999 } });
    expect(response).toMatchObject({
      status: 422,
      body: { message: 'webhook_id must be the id of a webhook.', errors: {} },
    });
  }
});

describe('the list of replays', () => {
  test('has pages', async () => {
    expect((await send({ path: REPLAYS })).body).toEqual({ replays: [running], next_cursor: null });
    const path = `${REPLAYS}?webhook_id=${webhook_id}&limit=1`;
    expect((await send({ path })).body).toEqual({ replays: [running], next_cursor: '61' });
  });

  test.each([
    ['webhook_id=abc', 'webhook_id must be the id of a webhook.'],
    ['webhook_id=', 'webhook_id must not be empty.'],
    ['limit=101', 'limit must be a whole number from 1 to 100.'],
    ['limit=1&limit=1', 'limit must be given once.'],
    ['cursor=x', 'cursor must be the cursor of a previous page.'],
  ])('?%s is 422', async (query, message) => {
    const response = await send({ path: `${REPLAYS}?${query}` });
    expect(response).toMatchObject({ status: 422, body: { message, errors: {} } });
  });
});
