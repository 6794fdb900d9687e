import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Check } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { FAULTS, type Fault } from '../../../test/kit/commerce/faults.ts';
import { startFaultyEndpoint } from '../../../test/kit/commerce/faulty-endpoint.ts';
import { newSecret, signingKeyOf } from '../../platform/outbound/signature.ts';
import { type CommerceClient, createCommerceClient } from '../http/client.ts';
import { CHECK_RULES } from './checks.ts';
import { type CheckTarget, openSession } from './session.ts';

const secret = newSecret();
let client: CommerceClient;
beforeAll(() => {
  const policy = { allowedOrigins: ['http://127.0.0.1:*'], stackPorts: () => [] };
  client = createCommerceClient({ policy });
});
afterAll(() => client.close());

interface Asking {
  readonly only?: Check;
  readonly mustRestock?: boolean;
  readonly order?: CheckTarget['order'];
}

const ORDER = { id: 445n, name: '#1001', mustBeFound: true };

/** Faults of an endpoint that waits for concurrent requests, so that the other checks would never end. */
const FOUND_ONLY_BY: Partial<Record<Fault, Check>> = {
  'stores a key after the effect': Check.CONCURRENCY,
};

/** What is wrong with an endpoint, by the titles of the questions. */
async function asked(
  fault: Fault | undefined,
  { only, mustRestock = true, order = ORDER }: Asking,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const endpoint = await startFaultyEndpoint(secret, fault);
  const session = openSession({
    client,
    url: endpoint.url,
    keys: [signingKeyOf(secret)],
    shopId: 1n,
    currency: 'GBP',
    order,
    mustRestock,
  });
  try {
    const problems = new Map<string, readonly string[]>();
    for (const { check, title, run } of CHECK_RULES) {
      if (only === undefined || check === only) problems.set(title, await run(session));
    }
    return problems;
  } finally {
    endpoint.stop();
  }
}

/** The titles of the questions at which an endpoint fails. */
async function failed(fault: Fault | undefined, o: Asking = {}): Promise<string[]> {
  const all = await asked(fault, o);
  return [...all].flatMap(([title, problems]) => (problems.length > 0 ? [title] : []));
}

async function problemsOf(fault: Fault | undefined, o: Asking): Promise<string[]> {
  return [...(await asked(fault, o)).values()].flat();
}

describe('the check of an endpoint', () => {
  test('passes an endpoint without a mistake', async () => {
    expect(await failed(undefined)).toEqual([]);
  });

  test.each(FAULTS.filter((fault) => fault !== 'answers too late'))(
    'finds an endpoint that %s',
    async (fault) => {
      const only = FOUND_ONLY_BY[fault];
      expect(await failed(fault, only === undefined ? {} : { only })).not.toEqual([]);
    },
    60_000,
  );

  test('passes an endpoint that rejects restocks only if its shop has no need of it', async () => {
    const title = 'returns goods to stock once, or rejects it';
    expect(await failed('rejects restocks')).toEqual([title]);
    expect(await failed('rejects restocks', { mustRestock: false })).toEqual([]);
    expect(await failed('restocks a key twice', { mustRestock: false })).toEqual([title]);
  });

  test('passes an endpoint that cancels no orders', async () => {
    expect(await failed('rejects cancellations')).toEqual([]);
  });

  test('passes an endpoint that looks up no orders', async () => {
    expect(await failed('rejects the look-up of orders')).toEqual([]);
  });

  test.each<[Fault, Check, string]>([
    ['answers HTML', Check.CONNECTION, '"<!doctype html><h1>Welcome</h1>". Is another program'],
    ['answers an unknown order with 404', Check.ORDER_FIND, 'answered 404 ("none")'],
    ['finds an order for every name', Check.ORDER_FIND, 'found #1001; answer "order": null'],
    [
      'finds orders by the beginning of their name',
      Check.ORDER_FIND,
      '#100: found #1001; compare the whole name',
    ],
    [
      'finds another order by its id',
      Check.ORDER_FIND,
      '#1001: its id 445 finds the order #1001 with the id 446',
    ],
    [
      'answers times that contradict each other',
      Check.ORDER_FIND,
      '#1001: delivered_at is before ordered_at',
    ],
    ['answers orders with two decimals', Check.ORDER_FIND, 'this currency has 0 decimals'],
    [
      'answers more returnable units than ordered',
      Check.ORDER_FIND,
      'line 9001: 3 of 2 units are returnable',
    ],
    [
      'answers a price that contradicts the totals',
      Check.ORDER_FIND,
      'line 9001: unit_price 9.00 GBP contradicts paid.total 20.00 for 2 units',
    ],
    [
      'answers totals without the tax',
      Check.ORDER_FIND,
      'line 9001: paid.total 18.01 GBP is not gross - discount + tax',
    ],
    [
      'has two decimals for every currency',
      Check.MONEY,
      'requested were 1550 JPY, answered 1550.00 JPY; use decimals',
    ],
    [
      'answers 500 after the effect',
      Check.EFFECTS,
      'refund: answered 500; it must answer 200. It was made all the same',
    ],
    [
      'answers 500 after the effect',
      Check.CONCURRENCY,
      'one of 5 requests with one key: answered 500; it must answer 200',
    ],
    ['forgets keys', Check.REPEATS, 'refund: first effect 7 of 1.10 GBP, then effect 8'],
    [
      'answers a search with 404',
      Check.SEARCH,
      'effect.find: answered 404 ("none"); it must answer 200, with "effect": null',
    ],
  ])('says of an endpoint that %s what is wrong', async (fault, only, problem) => {
    expect((await problemsOf(fault, { only })).join('\n')).toContain(problem);
  });

  test('says that an order was not found, if the caller says that it exists', async () => {
    const order = { id: 9n, name: '#9', mustBeFound: true };
    const only = Check.ORDER_FIND;
    expect(await problemsOf(undefined, { only, order })).toEqual([
      '#9: not found; pass an order of your platform as --order-name',
    ]);
    const other = { ...order, name: '#1001' };
    expect(await problemsOf(undefined, { only, order: other })).toEqual([
      '#1001: its id is 445, and --order says 9',
    ]);
    const any = { ...order, mustBeFound: false };
    expect(await problemsOf(undefined, { only, order: any })).toEqual([]);
  });

  test('finds an endpoint that answers too late', async () => {
    const titles = await failed('answers too late', { only: Check.EFFECTS });
    expect(titles).toEqual(['makes each kind of effect']);
    const [problem] = await problemsOf('answers too late', { only: Check.EFFECTS });
    expect(problem).toBe('exchange_order: no answer: not within 8 s');
  });

  test('says that an endpoint does not answer at all', async () => {
    const endpoint = await startFaultyEndpoint(secret, undefined);
    endpoint.stop();
    const session = openSession({
      client,
      url: endpoint.url,
      keys: [signingKeyOf(secret)],
      shopId: 1n,
      currency: 'GBP',
      order: { id: 1n, name: '#1', mustBeFound: false },
      mustRestock: false,
    });
    const rule = CHECK_RULES.find(({ check }) => check === Check.EFFECTS);
    const problems = (await rule?.run(session)) ?? [];
    expect(problems).toHaveLength(3);
    expect(problems[0]).toContain('no answer: connection refused');
  });
});
