import { randomUUID } from 'node:crypto';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ReplayState } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { delivers } from '../../services/contract/topics/topics.ts';
import { TOPICS, TRIGGERS } from '../../services/contract/vocabulary.ts';
import {
  expectError,
  INVALID,
  MISSING_DELIVERY,
  pathIn,
  SEGMENTS,
  text,
} from '../kit/journeys/expected-errors.ts';
import { type Hook, type HookPartner, startPartner, verified } from '../kit/journeys/hooks.ts';
import { callIn, type Journey, startJourney } from '../kit/journeys/journey.ts';
import { refusal } from '../kit/services/running-service.ts';
import { until } from '../kit/until.ts';

let journey: Journey;
let partner: HookPartner;
beforeAll(async () => {
  journey = await startJourney();
  partner = await startPartner(journey, journey.stack.shop);
}, 120_000);
afterAll(async () => {
  await partner?.stop();
  await journey?.stop();
}, 60_000);

const PATH = '/api/2026-10/webhooks';
const call = () => callIn(journey.stack.shop);

/** Pauses between the attempts of a delivery, without the jitter of up to a fifth. Seconds. */
const PAUSES_S = [5, 30, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];

interface Shown {
  readonly id: string;
  readonly state: string;
  readonly trigger: string;
  readonly occurred_at: string;
  readonly attempts: readonly { readonly status: number | null; readonly timing: object | null }[];
}

async function list(hook: Hook, query = '') {
  const { status, body } = await journey.send({ path: `${PATH}/${hook.id}/deliveries?${query}` });
  expect(status).toBe(200);
  return body as { readonly deliveries: readonly Shown[]; readonly next_cursor: string | null };
}

const untilState = (hook: Hook, state: string) =>
  until(async () => {
    const { deliveries } = await list(hook);
    return deliveries.length > 0 && deliveries.every((one) => one.state === state);
  });
const replayPath = (hook: Hook, id: string) => `${PATH}/${hook.id}/deliveries/${id}/replay`;
const fails = (response: { writeHead(status: number): { end(): void } }) =>
  void response.writeHead(500).end();
const succeeds = (response: { writeHead(status: number): { end(): void } }) =>
  void response.writeHead(200).end();

describe('the log of a webhook over REST', () => {
  test('lists deliveries newest first, in pages, and filters by state, trigger and time', async () => {
    const hook = await partner.subscribe('return', 'return.created');
    const began = new Date(Date.now() - 1_000).toISOString();
    for (const _ of [1, 2, 3]) await journey.stack.fixture('no_label');
    await partner.nth(hook, 3);
    await untilState(hook, 'delivered');
    const { deliveries } = await list(hook);
    expect(deliveries).toHaveLength(3);
    expect(deliveries).toEqual(deliveries.toSorted((one, other) => (one.id < other.id ? 1 : -1)));
    expect(deliveries[0]).toMatchObject({
      state: 'delivered',
      trigger: 'return.created',
      attempts: [{ status: 200, timing: { wait_ms: expect.any(Number) } }],
    });
    const ids = partner.received(hook).map(({ headers }) => headers['webhook-id']);
    expect(deliveries.map(({ id }) => id).sort()).toEqual(ids.sort());

    const pages = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page = await list(hook, `limit=1${cursor && `&cursor=${cursor}`}`);
      pages.push(...page.deliveries);
      cursor = page.next_cursor;
    }
    expect(pages).toEqual(deliveries);
    expect((await list(hook, 'state=delivered')).deliveries).toHaveLength(3);
    expect((await list(hook, 'state=waiting')).deliveries).toHaveLength(0);
    expect((await list(hook, 'trigger=return.closed')).deliveries).toHaveLength(0);
    expect((await list(hook, `from=${began}`)).deliveries).toHaveLength(3);
    expect((await list(hook, `to=${began}`)).deliveries).toHaveLength(0);
  });

  test('a replay over REST sends the same bytes with the same id, and is 409 while it waits', async () => {
    const hook = await partner.subscribe('return', 'return.created');
    await journey.stack.fixture('no_label');
    const first = await partner.nth(hook, 1);
    await untilState(hook, 'delivered');
    const id = String(first.headers['webhook-id']);
    partner.receiver.answer = fails;
    const answer = await journey.send({ method: 'POST', path: replayPath(hook, id) });
    expect(answer).toMatchObject({ status: 200, body: { id, state: 'waiting' } });
    const second = await partner.nth(hook, 2);
    expect([second.body, second.headers['webhook-id']]).toEqual([first.body, id]);
    verified(hook, second);
    await until(async () => (await list(hook)).deliveries[0]?.attempts.length === 2);
    for (const [segment, version] of SEGMENTS) {
      const path = pathIn(segment, `/webhooks/${hook.id}/deliveries/${id}/replay`);
      expectError(await journey.send({ method: 'POST', path }), version, {
        status: 409,
        body: { errors: { code: 'DELIVERY_NOT_REPLAYABLE', message: text } },
        code: 'DELIVERY_NOT_REPLAYABLE',
      });
    }
    partner.receiver.answer = succeeds;
    const another = await partner.subscribe('return', 'return.created');
    for (const path of [replayPath(another, id), replayPath(hook, MISSING_DELIVERY)]) {
      expect(await journey.send({ method: 'POST', path })).toMatchObject({
        status: 404,
        body: { errors: { code: 'NOT_FOUND' } },
      });
    }
    const key = journey.stack.otherShop.api_keys.developer_tools ?? '';
    const foreign = await journey.send({ method: 'POST', path: replayPath(hook, id), key });
    expect(foreign.status).toBe(404);
  });

  test('of a deleted webhook is 404, and so are its deliveries', async () => {
    const hook = await partner.subscribe('return', 'return.created');
    await journey.stack.fixture('no_label');
    const id = String((await partner.nth(hook, 1)).headers['webhook-id']);
    await untilState(hook, 'delivered');
    await journey.send({ method: 'DELETE', path: `${PATH}/${hook.id}` });
    const listed = await journey.send({ path: `${PATH}/${hook.id}/deliveries` });
    const replayed = await journey.send({ method: 'POST', path: replayPath(hook, id) });
    expect([listed.status, replayed.status]).toEqual([404, 404]);
  });

  test.each(SEGMENTS)('/api/%s rejects an invalid query', async (segment, version) => {
    const hook = await partner.subscribe('return', 'return.created');
    for (const query of [
      'state=lost',
      'limit=0',
      'limit=101',
      'from=yesterday',
      'cursor=x',
      'to=',
    ]) {
      const path = pathIn(segment, `/webhooks/${hook.id}/deliveries?${query}`);
      expectError(await journey.send({ path }), version, INVALID);
    }
  });
});

test('a replay by filter sends exhausted deliveries again, and a backfill sends earlier events', async () => {
  const { webhooks } = journey.services;
  const early = await journey.stack.fixture('no_label');
  const hook = await partner.subscribe('return', 'return.created');
  const subscriptionId = BigInt(hook.id);
  partner.receiver.answer = fails;
  await journey.stack.fixture('no_label');
  await partner.nth(hook, 1);
  for (const [at, pause] of [...PAUSES_S, undefined].entries()) {
    await until(async () => (await list(hook)).deliveries[0]?.attempts.length === at + 1);
    if (pause === undefined) break;
    await journey.stack.control('POST', '/clock/webhooks', { advance_s: pause * 1.2 + 1 });
  }
  await untilState(hook, 'exhausted');
  partner.receiver.answer = succeeds;
  const filter = { subscriptionId };
  const preview = await webhooks.previewReplay({ ...call(), filter });
  expect(preview).toMatchObject({ matched: 1, replayable: 1, more: false });
  const started = await webhooks.startReplay({ ...call(), filter, idempotencyKey: randomUUID() });
  await partner.nth(hook, 12);
  await untilEnded(started.replay?.id ?? 0n, 1);
  await untilState(hook, 'delivered');

  const from = timestampFromDate(new Date(Date.now() - 3_600_000));
  const wish = { ...call(), subscriptionId, from };
  const { events } = await webhooks.previewBackfill(wish);
  expect(events).toBeGreaterThanOrEqual(2);
  const { replay } = await webhooks.startBackfill({ ...wish, idempotencyKey: randomUUID() });
  const ended = await untilEnded(replay?.id ?? 0n, events - 1);
  expect(ended).toMatchObject({ total: events, skipped: 1 });
  await until((see) => see(partner.received(hook).length) === 12 + events - 1);
  const bodies = partner.received(hook).map((one) => verified(hook, one));
  expect(bodies.filter(({ id }) => id === early.id)).toHaveLength(1);
}, 120_000);

async function untilEnded(replayId: bigint, done: number) {
  const replay = await until(async () => {
    const answer = await journey.services.webhooks.getReplay({ ...call(), replayId });
    return answer.replay?.state === ReplayState.DONE && answer.replay;
  });
  expect(replay.done).toBe(done);
  return replay;
}

test('a test event works exactly for the pairs of topic and trigger that are delivered', async () => {
  const { webhooks } = journey.services;
  for (const topic of TOPICS) {
    const hook = await partner.subscribe(topic, 'return.closed');
    const subscriptionId = BigInt(hook.id);
    for (const trigger of TRIGGERS) {
      const sending = webhooks.sendTest({ ...call(), subscriptionId, trigger });
      if (!delivers(topic, trigger)) {
        expect(await refusal(sending)).toMatchObject({ reason: 'INVALID_FIELD', field: 'trigger' });
        continue;
      }
      expect((await sending).delivery).toMatchObject({ test: true, topic, trigger });
    }
    const wanted = TRIGGERS.filter((trigger) => delivers(topic, trigger));
    expect(wanted).not.toEqual([]);
    await partner.nth(hook, wanted.length);
    const received = partner.received(hook).map((one) => verified(hook, one));
    expect(received.map(({ trigger }) => trigger).sort()).toEqual([...wanted].sort());
    const { deliveries } = await list(hook);
    expect(deliveries).toHaveLength(wanted.length);
  }
}, 120_000);
