import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Check } from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import {
  FAULTS,
  type Fault,
  startFaultyEndpoint,
} from '../../../../test/kit/commerce/faulty-endpoint.ts';
import { newSecret, signingKeyOf } from '../../../platform/outbound/signature.ts';
import { type CommerceClient, createCommerceClient } from '../http/client.ts';
import { CHECK_RULES } from './run.ts';
import { openSession } from './session.ts';

const secret = newSecret();
let client: CommerceClient;
beforeAll(() => {
  const policy = { allowedOrigins: ['http://127.0.0.1:*'], stackPorts: () => [] };
  client = createCommerceClient({ policy });
});
afterAll(() => client.close());

/** The titles of the questions at which an endpoint fails. */
async function failed(
  fault: Fault | undefined,
  { only, mustRestock = true }: { only?: Check; mustRestock?: boolean } = {},
): Promise<string[]> {
  const endpoint = await startFaultyEndpoint(secret, fault);
  const session = openSession({
    ...{ client, url: endpoint.url, keys: [signingKeyOf(secret)], shopId: 1n, currency: 'GBP' },
    ...{ order: { id: 1n, name: '#1' }, mustRestock },
  });
  try {
    const titles: string[] = [];
    for (const { check, title, run } of CHECK_RULES) {
      if (only !== undefined && check !== only) continue;
      if ((await run(session)).length > 0) titles.push(title);
    }
    return titles;
  } finally {
    endpoint.stop();
  }
}

describe('the check of an endpoint', () => {
  test('passes an endpoint without a mistake', async () => {
    expect(await failed(undefined)).toEqual([]);
  }, 60_000);

  test.each(FAULTS.filter((fault) => fault !== 'answers too late'))(
    'finds an endpoint that %s',
    async (fault) => {
      expect(await failed(fault)).not.toEqual([]);
    },
    60_000,
  );

  test('passes an endpoint that rejects restocks only if its shop has no need of it', async () => {
    const title = 'returns goods to stock once, or rejects it';
    expect(await failed('rejects restocks')).toEqual([title]);
    expect(await failed('rejects restocks', { mustRestock: false })).toEqual([]);
    expect(await failed('restocks a key twice', { mustRestock: false })).toEqual([title]);
  }, 60_000);

  test('passes an endpoint that cancels no orders', async () => {
    expect(await failed('rejects cancellations')).toEqual([]);
  }, 60_000);

  test('finds an endpoint that answers too late', async () => {
    const titles = await failed('answers too late', { only: Check.EFFECTS });
    expect(titles).toEqual(['makes each kind of effect']);
  }, 60_000);

  test('says that an endpoint does not answer at all', async () => {
    const endpoint = await startFaultyEndpoint(secret, undefined);
    endpoint.stop();
    const session = openSession({
      ...{ client, url: endpoint.url, keys: [signingKeyOf(secret)], shopId: 1n, currency: 'GBP' },
      ...{ order: { id: 1n, name: '#1' }, mustRestock: false },
    });
    const rule = CHECK_RULES.find(({ check }) => check === Check.EFFECTS);
    const problems = (await rule?.run(session)) ?? [];
    expect(problems).toHaveLength(3);
    expect(problems[0]).toContain('no answer');
  });
});
