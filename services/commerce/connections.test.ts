import { randomUUID } from 'node:crypto';
import { type Client, Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import {
  Check,
  CommerceService,
  EffectKind,
  EffectState,
} from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { startFaultyEndpoint } from '../../test/kit/commerce/faulty-endpoint.ts';
import { effectKey } from '../../test/kit/services/processing.ts';
import {
  invalid,
  notFound,
  type ReturnsBench,
  startReturnsBench,
  stateForbids,
} from '../../test/kit/services/returns-bench.ts';
import { actor, identity, refusal } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../test/kit/webhooks/receiver.ts';
import { createServiceClient } from '../platform/rpc/client.ts';

let bench: ReturnsBench;
let channel: { client: Client<typeof CommerceService>; close(): void };
let commerce: Client<typeof CommerceService>;
let receiver: Receiver;
let shopId: bigint;
beforeAll(async () => {
  // As in production, only a connected or a sandbox shop has a provider.
  bench = await startReturnsBench({ NODE_ENV: 'production' });
  channel = createServiceClient(CommerceService, { target: bench.target, identity });
  commerce = channel.client;
  receiver = await startReceiver();
});
afterAll(async () => {
  channel?.close();
  await receiver?.stop();
  await bench?.stop();
});
beforeEach(async () => {
  shopId = await bench.shop();
  receiver.received.length = 0;
  let id = 100;
  receiver.answer = (response, { body }) => {
    const { amount, currency } = JSON.parse(body).data;
    id += 1;
    response.end(JSON.stringify({ effect: { id, amount, currency } }));
  };
});

const connect = (url = `${receiver.url}/`) => commerce.connect({ shopId, actor, url });
const notConnected = notFound('COMMERCE_CONNECTION');

async function processed(): Promise<bigint> {
  const { id } = await bench.submit(shopId);
  const { result } = await bench.client.processReturn({ shopId, actor, returnId: id });
  expect(result.case).toBe('queued');
  await until(async () => (await bench.read({ shopId, id })).state === ReturnState.CLOSED);
  return id;
}

const isSignedBy = (secret: string | undefined, at = 0): boolean => {
  const { body = '', headers = {} } = receiver.received[at] ?? {};
  try {
    new Webhook(secret ?? '').verify(body, headers as Record<string, string>);
    return true;
  } catch {
    return false;
  }
};

describe('a connected shop', () => {
  test('has its effects made by its endpoint, signed by the secret that only the first call shows', async () => {
    const first = await connect();
    const again = await connect();
    expect(again.secret).toBeUndefined();
    expect(again.connection).toMatchObject({ url: `${receiver.url}/` });
    await processed();
    expect(receiver.received).toHaveLength(1);
    expect(isSignedBy(first.secret?.value)).toBe(true);
    const { rows } = await bench.db.pool.query<{ stored: string }>(
      'select row_to_json(s)::text as stored from commerce_secrets s where shop_id = $1',
      [shopId],
    );
    expect(rows).toHaveLength(1);
    expect(rows[0]?.stored).not.toContain(first.secret?.value);
  });

  test('has a table of its effects', async () => {
    await connect();
    const returnId = await processed();
    const { effects } = await commerce.listEffects({ shopId, actor, returnId });
    expect(effects).toMatchObject([
      {
        kind: EffectKind.REFUND,
        key: await effectKey(bench.db.pool, { shopId, id: returnId }, 'refund'),
        state: EffectState.MADE,
        amount: { currency: 'GBP' },
        providerId: '101',
      },
    ]);
    const other = await bench.shop();
    expect(await refusal(commerce.listEffects({ shopId: other, actor, returnId }))).toEqual(
      notFound('RETURN'),
    );
  });

  test('is signed for by old and new secret during the overlap, and then by the new one', async () => {
    const { secret: old } = await connect();
    const { secret: next } = await commerce.rotateSecret({ shopId, actor });
    await processed();
    expect([isSignedBy(old?.value), isSignedBy(next?.value)]).toEqual([true, true]);
    const { secret: last } = await commerce.rotateSecret({ shopId, actor, overlapHours: 0 });
    receiver.received.length = 0;
    await processed();
    const all = [old, next, last].map((one) => isSignedBy(one?.value));
    expect(all).toEqual([false, false, true]);
  });

  test('gets one secret for a repeated rotation', async () => {
    await connect();
    const idempotencyKey = randomUUID();
    const rotate = () => commerce.rotateSecret({ shopId, actor, idempotencyKey });
    const made = await Promise.all([rotate(), rotate(), rotate()]);
    expect(new Set(made.map(({ secret }) => secret?.value)).size).toBe(1);
  });

  test('is not processed any more once it is disconnected', async () => {
    await connect();
    expect(await commerce.disconnect({ shopId, actor })).toMatchObject({ disconnected: true });
    expect(await commerce.disconnect({ shopId, actor })).toMatchObject({ disconnected: false });
    expect(await refusal(commerce.getConnection({ shopId, actor }))).toEqual(notConnected);
    const { id: returnId } = await bench.submit(shopId);
    const { result } = await bench.client.processReturn({ shopId, actor, returnId });
    expect(result.case).toBe('refused');
  });

  test('is not disconnected while an effect has an unknown outcome, except by force', async () => {
    await connect();
    receiver.answer = (response) => void response.destroy();
    const { id: returnId } = await bench.submit(shopId);
    await bench.client.processReturn({ shopId, actor, returnId });
    const states = async () => {
      const { effects } = await commerce.listEffects({ shopId, actor, returnId });
      return effects.map(({ state, problem }) => ({ state, problem }));
    };
    await until(async () => Boolean((await states())[0]?.problem));
    expect(await states()).toEqual([
      { state: EffectState.UNKNOWN, problem: expect.stringContaining('the endpoint: ') },
    ]);
    expect(await refusal(commerce.disconnect({ shopId, actor }))).toEqual(stateForbids);
    expect(await refusal(connect(`${receiver.url}/other`))).toEqual(stateForbids);
    const settings = { sandbox: true };
    expect(await refusal(bench.client.updateSettings({ shopId, actor, settings }))).toEqual(
      stateForbids,
    );
    await connect();
    expect(await commerce.getConnection({ shopId, actor })).toMatchObject({ connection: {} });
    const forced = await commerce.disconnect({ shopId, actor, force: true });
    expect(forced.disconnected).toBe(true);
  });

  test('says in its requests whether it is a sandbox', async () => {
    await bench.client.updateSettings({ shopId, actor, settings: { sandbox: true } });
    await connect();
    await processed();
    expect(JSON.parse(receiver.received[0]?.body ?? '')).toMatchObject({ sandbox: true });
  });

  test('is checked', async () => {
    const { secret } = await connect();
    const endpoint = await startFaultyEndpoint(secret?.value ?? '', 'forgets keys');
    await connect(endpoint.url);
    const about = { shopId, actor, providerOrderId: 1n };
    const money = await commerce.runCheck({ ...about, check: Check.MONEY });
    expect(money.problems).toEqual([]);
    const repeats = await commerce.runCheck({ ...about, check: Check.REPEATS });
    expect(repeats.problems.length).toBeGreaterThan(0);
    endpoint.stop();
  });
});

describe('a connection', () => {
  test.each([
    '',
    'ftp://example.com/',
    'http://example.com/',
    'https://10.0.0.1/',
    'https://a.b/#x',
  ])('is not made to %j', async (url) => {
    expect(await refusal(connect(url))).toEqual(invalid('url'));
  });

  test('needs a shop with settings', async () => {
    shopId = 987_654n;
    expect(await refusal(connect())).toMatchObject({ reason: 'SHOP_NOT_CONFIGURED' });
  });

  test('that does not exist has no secret and no check', async () => {
    const call = { shopId, actor };
    expect(await refusal(commerce.getConnection(call))).toEqual(notConnected);
    expect(await refusal(commerce.rotateSecret(call))).toEqual(notConnected);
    const check = { ...call, check: Check.MONEY, providerOrderId: 1n };
    expect(await refusal(commerce.runCheck(check))).toEqual(notConnected);
  });

  test.each([-1, 169])('has no overlap of %d hours', async (overlapHours) => {
    await connect();
    expect(await refusal(commerce.rotateSecret({ shopId, actor, overlapHours }))).toEqual(
      invalid('overlap_hours'),
    );
  });

  test('needs COMMERCE_KEYRING', async () => {
    const without = await startReturnsBench({ COMMERCE_KEYRING: undefined });
    const { client, close } = createServiceClient(CommerceService, {
      target: without.target,
      identity,
    });
    const shop = await without.shop();
    const call = client.connect({ shopId: shop, actor, url: `${receiver.url}/` });
    expect(await refusal(call)).toEqual({ ...stateForbids, code: Code.FailedPrecondition });
    close();
    await without.stop();
  });
});
