import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { effectRequest as request } from '../../../test/kit/commerce/effect-request.ts';
import { type Receiver, startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import { newSecret, signingKeyOf } from '../../platform/outbound/signature.ts';
import { NoLookUp } from '../provider.ts';
import { createHttpCommerce } from './adapter.ts';
import { type CommerceClient, createCommerceClient } from './client.ts';
import { REQUEST_DATA } from './protocol.ts';

const secret = newSecret();
const keys = [signingKeyOf(secret)];
const policy = { allowedOrigins: ['http://127.0.0.1:*'], stackPorts: () => [] };
const never = new AbortController().signal;

let client: CommerceClient;
beforeAll(() => {
  client = createCommerceClient({ policy });
});
afterAll(() => client.close());

const commerceAt = (url: string) => createHttpCommerce({ client, url, keys, sandbox: false });

describe('a request', () => {
  let receiver: Receiver;
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.stop());

  const effect = { id: 991, amount: '12.50', currency: 'GBP' };
  const answering = (status: number, body: unknown, headers: Record<string, string> = {}) => {
    receiver.answer = (response) => {
      response.writeHead(status, headers);
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    };
  };
  const failure = (asked = request()) =>
    commerceAt(receiver.url)
      .create(asked, never)
      .catch((error: unknown) => error);

  test('is signed, names its key, and follows the schema of its type', async () => {
    answering(200, { effect });
    const item = { productId: 1n, variantId: 2n, sku: 'S', title: 'Hat' };
    const amounts = { price: '12.50', discount: '0', tax: '0' };
    const line = {
      providerLineItemId: 3n,
      sku: 'S',
      quantity: 1,
      refund: '12.50',
      shipping: '2.50',
    };
    const goods = { ...line, lineItemId: 1n, variantId: 2n, locationId: 0n };
    const asked = {
      exchange_order: request('exchange_order', {
        items: [{ ...item, ...amounts }],
        details: { picker: 'Ann' },
        funding: { paidByReturn: '10.00', due: '0.00', paymentReference: 'pay_77' },
      }),
      gift_card: request('gift_card'),
      refund: request('refund', { lines: [line] }),
      restock: request('restock', { stock: [goods] }),
    };
    for (const one of Object.values(asked)) await commerceAt(receiver.url).create(one, never);
    for (const [at, { key }] of Object.values(asked).entries()) {
      const { body, headers } = receiver.received[at] ?? {};
      expect(headers).toMatchObject({ 'idempotency-key': key });
      const sent = new Webhook(secret).verify(body ?? '', headers as Record<string, string>) as {
        type: keyof typeof REQUEST_DATA;
        data: unknown;
      };
      expect(REQUEST_DATA[sent.type].safeParse(sent.data)).toMatchObject({ success: true });
    }
  });

  test('takes gateway, name and time of the effect from the answer', async () => {
    const created_at = '2026-11-20T10:00:00+02:00';
    answering(200, { effect: { ...effect, gateway: 'card', name: '#X', created_at } });
    const names = { gateway: 'card', provider: 'http', name: '' };
    expect(await commerceAt(receiver.url).create(request(), never)).toEqual({
      ...names,
      id: '991',
      amount: '12.50',
      currency: 'GBP',
      createdAt: new Date(created_at),
    });
    const order = await commerceAt(receiver.url).create(request('exchange_order'), never);
    expect(order).toMatchObject({ id: '991', name: '#X', gateway: '' });
  });

  test.each([400, 422])('that a proxy answers with %d has an unknown outcome', async (status) => {
    answering(status, '<html>Bad Request</html>');
    expect(await failure()).toMatchObject({ kind: 'passing' });
  });

  test.each([
    ['0000-01-01T00:00:00Z', undefined],
    ['9999-12-31T23:59:59-12:00', undefined],
    ['2026-01-02T03:04:05Z', new Date('2026-01-02T03:04:05Z')],
  ])('whose effect was made at %s is recorded at %p', async (created_at, createdAt) => {
    answering(200, { effect: { ...effect, created_at } });
    expect((await commerceAt(receiver.url).create(request(), never)).createdAt).toEqual(createdAt);
  });

  test('has the id of its effect in the normal form, in which events about refunds have it, too', async () => {
    answering(200, { effect: { ...effect, id: ' R-e\u0301  ' } });
    const { id } = await commerceAt(receiver.url).create(request(), never);
    expect(id).toBe('R-\u00e9');
  });

  test('whose answer has texts that cannot be stored is recorded without these characters', async () => {
    answering(200, { effect: { ...effect, id: 'r\u0000\ud800', gateway: 'ca\u001brd' } });
    expect(await commerceAt(receiver.url).create(request(), never)).toMatchObject({
      id: 'r\u{fffd}\u{fffd}',
      gateway: 'ca\u{fffd}rd',
    });
  });

  test.each([400, 422])('that is answered with %d and a reason is final', async (status) => {
    answering(status, { error: { message: 'the card is closed' } });
    expect(await failure()).toMatchObject({
      kind: 'final',
      message: expect.stringContaining('the card is closed'),
    });
  });

  test.each([
    { code: 4_001, message: 'the card is closed' },
    { code: 'x'.repeat(101), message: `the card is closed${'.'.repeat(5_000)}` },
  ])('that is rejected with a reason in an unusual form is final', async (error) => {
    answering(422, { error });
    expect(await failure()).toMatchObject({
      kind: 'final',
      message: expect.stringMatching(/^the endpoint answered 422: the card is closed\.*$/),
    });
  });

  test.each([301, 401, 403, 404, 408, 409, 410, 425, 429, 500, 503])(
    'that is answered with %d is tried again',
    async (status) => {
      answering(status, 'no', { location: `${receiver.url}/other`, 'retry-after': '7' });
      expect(await failure()).toMatchObject({ kind: 'passing', retryAfterMs: 7_000 });
      expect(receiver.received).toHaveLength(1);
    },
  );

  test.each([
    ['no JSON', '<html>', 'it is not JSON'],
    [
      'an error',
      { error: { message: 'no card' } },
      'no card; an endpoint that rejects answers 400',
    ],
    ['no effect', {}, 'effect: '],
    ['null', { effect: null }, 'effect: '],
    ['an amount that is a number', { effect: { ...effect, amount: 12.5 } }, 'effect.amount: '],
    ['another form of currency', { effect: { ...effect, currency: 'pounds' } }, 'effect.currency'],
    ['too many bytes', JSON.stringify({ effect, rest: 'x'.repeat(600_000) }), 'the endpoint: '],
  ])('whose answer has %s has an unknown outcome, and says why', async (_, body, why) => {
    answering(200, body);
    expect(await failure()).toMatchObject({
      kind: 'passing',
      message: expect.stringContaining(why),
    });
  });

  test.each(['exchange_order', 'gift_card', 'refund'] as const)(
    'for a %s that is answered without an amount has an unknown outcome',
    async (kind) => {
      for (const made of [{ id: 1 }, { id: 1, amount: '12.50' }, { id: 1, currency: 'GBP' }]) {
        answering(200, { effect: made });
        expect(await failure(request(kind))).toMatchObject({ kind: 'passing' });
      }
    },
  );

  test('for a restock needs no amount in the answer, and any text as id', async () => {
    answering(200, { effect: { id: 'adjustment/7' } });
    const made = await commerceAt(receiver.url).create(request('restock'), never);
    expect(made).toMatchObject({ id: 'adjustment/7', amount: '0', currency: 'GBP' });
  });

  test.each(['', '0', '1.5', 'gid://order/1', '9007199254740992'])(
    'for an order that is answered with the id %j has an unknown outcome',
    async (id) => {
      answering(200, { effect: { ...effect, id } });
      expect(await failure(request('exchange_order'))).toMatchObject({ kind: 'passing' });
    },
  );

  test('for an order by its name accepts no other order', async () => {
    const order = {
      id: 1,
      name: '#10010',
      currency: 'GBP',
      presentment_currency: 'GBP',
      lines: [],
    };
    answering(200, { order });
    const find = (name: string) => commerceAt(receiver.url).lookUp?.({ shopId: 7n, name }, never);
    await expect(find('#1001')).rejects.toMatchObject({
      kind: 'final',
      message:
        'the answer of the endpoint: asked for the order #1001, found #10010; compare the whole name',
    });
    expect(await find('#10010')).toMatchObject({ id: 1n });
    answering(200, { order: { ...order, lines: [{ title: 'x'.repeat(192) }] } });
    await expect(find('#10010')).rejects.toMatchObject({ kind: 'final' });
    answering(200, '<html>');
    await expect(find('#10010')).rejects.toMatchObject({ kind: 'passing' });
  });

  test('for an order by its id accepts no other order', async () => {
    const order = { id: 1, name: '#1', currency: 'GBP', presentment_currency: 'GBP', lines: [] };
    answering(200, { order });
    const find = (id: bigint) => commerceAt(receiver.url).lookUp?.({ shopId: 7n, id }, never);
    expect(await find(1n)).toMatchObject({ id: 1n, name: '#1' });
    expect(JSON.parse(receiver.received.at(-1)?.body ?? '').data).toEqual({ id: 1 });
    await expect(find(2n)).rejects.toMatchObject({
      kind: 'final',
      message: 'the answer of the endpoint: asked for the order with the id 2, found 1',
    });
  });

  test.each([400, 422, 404, 501])(
    'for an order by its name that is answered with %d gets an answer: there is no such look-up',
    async (status) => {
      answering(status, 'no');
      const finding = commerceAt(receiver.url).lookUp?.({ shopId: 7n, name: '#1001' }, never);
      const message = `the endpoint answered ${status}`;
      const failed = await finding?.catch((error: unknown) => error);
      expect(failed).toBeInstanceOf(NoLookUp);
      expect(failed).toMatchObject({ kind: 'final', message });
    },
  );

  test('that is not answered ends when its time is over', async () => {
    receiver.answer = () => {};
    const stopped = commerceAt(receiver.url).create(request(), AbortSignal.timeout(50));
    const message = 'the endpoint: no complete answer in time';
    await expect(stopped).rejects.toMatchObject({ kind: 'passing', message });
  });

  test('that is answered 100 Continue first gets the answer that follows', async () => {
    receiver.answer = (response) => {
      response.writeContinue();
      response.end(JSON.stringify({ effect }));
    };
    expect(await commerceAt(receiver.url).create(request(), never)).toMatchObject({ id: '991' });
    expect(receiver.received).toHaveLength(1);
  });

  test('that is not answered with HTTP says so', async () => {
    receiver.answer = (response) => void response.socket?.end('SSH-2.0-OpenSSH_9.6\r\n');
    expect(await failure()).toMatchObject({
      message: expect.stringContaining('the endpoint: answer is not HTTP/1.1: '),
    });
  });

  test('whose connection is closed without an answer has an unknown outcome', async () => {
    receiver.answer = (response) => void response.socket?.destroy();
    expect(await failure()).toMatchObject({ kind: 'passing', isUnsent: false });
  });

  test('for which no connection can be opened is known as not sent', async () => {
    const { url } = receiver;
    await receiver.stop();
    receiver = await startReceiver();
    const failed = await commerceAt(url)
      .create(request(), never)
      .catch((error: unknown) => error);
    const message = 'the endpoint: connection refused';
    expect(failed).toMatchObject({ kind: 'passing', isUnsent: true, message });
  });

  test('is not sent to an address that is not allowed', async () => {
    const guarded = createCommerceClient({
      policy: { ...policy, allowedOrigins: [] },
      resolve: async () => ['10.0.0.1'],
    });
    for (const url of [receiver.url, 'https://shop.example.com/', 'https://127.0.0.1/']) {
      const commerce = createHttpCommerce({ client: guarded, url, keys, sandbox: false });
      const failed = {
        kind: 'passing',
        isUnsent: true,
        message: 'the endpoint: address not allowed',
      };
      await expect(commerce.create(request(), never)).rejects.toMatchObject(failed);
    }
    await guarded.close();
    expect(receiver.received).toEqual([]);
  });
});
