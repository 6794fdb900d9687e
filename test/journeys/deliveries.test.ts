import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { DeliveryState } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { RETURN_TRIGGERS } from '../../services/contract/vocabulary.ts';
import { type Hook, type HookPartner, startPartner, verified } from '../kit/journeys/hooks.ts';
import { callIn, type Journey, startJourney } from '../kit/journeys/journey.ts';
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
const advance = (seconds: number) =>
  journey.stack.control('POST', '/clock/webhooks', { advance_s: seconds });

/** Causes one `return.created`. */
const cause = () => journey.stack.fixture('no_label');

const deliveriesOf = async (hook: Hook) =>
  (await journey.services.webhooks.listDeliveries({ ...call(), subscriptionId: BigInt(hook.id) }))
    .deliveries;

async function untilWaiting(hook: Hook, attempts: number): Promise<void> {
  await until(async () => {
    const [delivery] = await deliveriesOf(hook);
    return delivery?.attempts.length === attempts && delivery.state === DeliveryState.WAITING;
  });
}

const statusOf = async (hook: Hook) => {
  const listed = (await journey.send({ path: PATH })).body as { id: number; status: string }[];
  return listed.find(({ id }) => id === hook.id)?.status;
};
const setStatus = async (hook: Hook, status: string) => {
  const json = { topic: 'return', trigger: 'return.created', url: hook.url, status };
  const answer = await journey.send({ method: 'PUT', path: `${PATH}/${hook.id}`, json });
  expect(answer.status).toBe(204);
};

const headerOf = (received: { headers: Record<string, unknown> }, name: string) =>
  String(received.headers[name]);

/** Makes one path respond with this status. All others respond with 200. */
function answering(hook: Hook, status: number, headers = {}): void {
  partner.receiver.answer = (response, received) => {
    if (received.path === hook.path) response.writeHead(status, headers).end();
    else response.writeHead(200).end();
  };
}

const healthy = () => {
  partner.receiver.answer = (response) => {
    response.writeHead(200).end();
  };
};

describe('a failing delivery', () => {
  test('is retried after 5 s, 30 s and 5 min in real time, with the same id and the same bytes', async () => {
    const hook = await partner.subscribe('return', 'return.created');
    answering(hook, 500);
    await cause();
    for (const [attempts, pause] of [
      [1, 5],
      [2, 30],
      [3, 300],
    ] as const) {
      await untilWaiting(hook, attempts);
      expect(partner.received(hook)).toHaveLength(attempts);
      if (attempts === 3) healthy();
      await advance(pause * 1.2 + 1);
    }
    await partner.nth(hook, 4);
    await until(
      async (see) => see((await deliveriesOf(hook))[0]?.state) === DeliveryState.DELIVERED,
    );
    const [first, ...others] = partner.received(hook);
    for (const other of others) {
      expect(headerOf(other, 'webhook-id')).toBe(first && headerOf(first, 'webhook-id'));
      expect(other.body).toBe(first?.body);
      expect(
        Math.abs(Date.now() / 1000 - Number(headerOf(other, 'webhook-timestamp'))),
      ).toBeLessThan(60);
      verified(hook, other);
    }
  });

  test('is not retried before its time', async () => {
    const hook = await partner.subscribe('return', 'return.created');
    answering(hook, 503, { 'retry-after': '600' });
    await cause();
    await untilWaiting(hook, 1);
    await advance(300);
    const other = await partner.subscribe('return', 'return.created');
    await cause();
    await partner.nth(other, 1);
    // The first attempt of the second event may have arrived. The second attempt of the first one has not.
    const [oldest] = (await deliveriesOf(hook)).toReversed();
    expect(oldest?.attempts).toHaveLength(1);
    healthy();
    await advance(600);
    await until(
      async (see) => see((await deliveriesOf(hook)).at(-1)?.state) === DeliveryState.DELIVERED,
    );
  });

  test('makes the subscription inactive after a 410', async () => {
    const hook = await partner.subscribe('return', 'return.created');
    answering(hook, 410);
    await cause();
    await until(async (see) => see(await statusOf(hook)) === 'inactive');
    expect(partner.received(hook)).toHaveLength(1);
    healthy();
  });
});

describe('an inactive subscription', () => {
  test('gets no new events, and its waiting deliveries continue when it is active again', async () => {
    const hook = await partner.subscribe('return', 'return.created');
    const witness = await partner.subscribe('return', 'return.created');
    answering(hook, 500);
    await cause();
    await untilWaiting(hook, 1);
    await setStatus(hook, 'inactive');
    healthy();
    await advance(60);
    await cause();
    await partner.nth(witness, 2);
    expect(partner.received(hook)).toHaveLength(1);
    expect((await deliveriesOf(hook)).map(({ state }) => state)).toEqual([DeliveryState.HELD]);

    await setStatus(hook, 'active');
    const again = await partner.nth(hook, 2);
    expect(headerOf(again, 'webhook-id')).toBe((await deliveriesOf(hook))[0]?.id);
    expect(await deliveriesOf(hook)).toHaveLength(1);
  });

  test('gets nothing after its deletion, and its log is kept', async () => {
    const hook = await partner.subscribe('return', 'return.created');
    answering(hook, 500);
    await cause();
    await untilWaiting(hook, 1);
    expect((await journey.send({ method: 'DELETE', path: `${PATH}/${hook.id}` })).status).toBe(204);
    healthy();
    const states = (await deliveriesOf(hook)).map(({ state }) => state);
    expect(states).toEqual([DeliveryState.DROPPED]);
  });

  test('a new url applies to waiting deliveries', async () => {
    const hook = await partner.subscribe('return', 'return.created');
    answering(hook, 500);
    await cause();
    await untilWaiting(hook, 1);
    const moved = { ...hook, path: `${hook.path}/moved`, url: `${hook.url}/moved` };
    await setStatus(moved, 'active');
    await advance(10);
    verified(hook, await partner.nth(moved, 1));
    healthy();
  });
});

describe('replay and test', () => {
  test('a replay has the same id and the same bytes', async () => {
    const hook = await partner.subscribe('return', 'return.created');
    await cause();
    const first = await partner.nth(hook, 1);
    await until(
      async (see) => see((await deliveriesOf(hook))[0]?.state) === DeliveryState.DELIVERED,
    );
    const deliveryId = headerOf(first, 'webhook-id');
    await journey.services.webhooks.replayDelivery({ ...call(), deliveryId });
    const second = await partner.nth(hook, 2);
    expect(headerOf(second, 'webhook-id')).toBe(deliveryId);
    expect(second.body).toBe(first.body);
    verified(hook, second);
  });

  test('SendTest sends any trigger of the topic, in the payload version of the shop', async () => {
    const hook = await partner.subscribe('return', 'return.closed');
    for (const [at, trigger] of RETURN_TRIGGERS.entries()) {
      await journey.services.webhooks.sendTest({
        ...call(),
        subscriptionId: BigInt(hook.id),
        trigger,
      });
      const received = await partner.nth(hook, at + 1);
      expect(received.headers).toMatchObject({
        'x-service-event': trigger,
        'x-service-api-version': '2026-07',
      });
      expect(verified(hook, received)).toMatchObject({ topic: 'return', trigger });
    }
  });
});

test('one trace contains the REST request and the webhook', async () => {
  const hook = await partner.subscribe('return', 'return.closed');
  const { id } = await journey.stack.fixture('open');
  const traceId = id.toString(16).padStart(32, 'ab');
  await journey.send({
    method: 'POST',
    path: `/api/2026-10/warehouse/return/${id}/process`,
    headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-01` },
  });
  const received = await partner.nth(hook, 1);
  expect(headerOf(received, 'traceparent').split('-')[1]).toBe(traceId);
});

test('no webhook goes to a forbidden address or to the stack itself, in any notation', async () => {
  const { file } = journey.stack;
  const port = new URL(partner.receiver.url).port;
  const own = [
    file.base_url,
    file.auth_url,
    file.control_url,
    `http://${file.grpc.returns}`,
    ...Object.values(file.base_url_at),
    ...Object.values(file.metrics),
  ];
  const spelled = [
    'localhost',
    '127.1',
    '2130706433',
    '0x7f.1',
    '127.0.0.1.',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '0.0.0.0',
    '127.0.0.2',
  ];
  const urls = [
    ...file.receivers.refused_examples,
    ...own.map((url) => `${url}/hook`),
    ...spelled.map((host) => `http://${host}:${port}/hook`),
    ...spelled.map((host) => `https://${host}/hook`),
    'https://192.168.1.1/',
    'https://[fd00::1]/',
    'https://metadata.internal/',
  ];
  for (const url of urls) {
    const json = { topic: 'return', trigger: 'return.closed', url };
    const { status, body } = await journey.send({ path: PATH, json });
    expect([url, status, body]).toEqual([
      url,
      422,
      { errors: { code: 'FAILED_TO_CREATE_WEBHOOK', message: expect.any(String) } },
    ]);
  }
});
