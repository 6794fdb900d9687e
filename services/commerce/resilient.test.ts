import { describe, expect, test } from '@jest/globals';
import { CommerceFailure, type CommerceProvider, type EffectRequest } from './provider.ts';
import { resilient } from './providers.ts';

const request: EffectRequest = {
  kind: 'refund',
  shopId: 1n,
  returnId: 1n,
  providerOrderId: 1n,
  orderName: '#1',
  key: 'k',
  amount: '1.00',
  currency: 'GBP',
  items: [],
  lines: [],
  stock: [],
  orderToCancel: undefined,
  details: {},
};
const signal = new AbortController().signal;

function providerWhere(create: CommerceProvider['create']): CommerceProvider {
  const nothing = () => Promise.resolve(undefined);
  return { settledAfterMs: 0, create, find: nothing, list: nothing };
}

async function failureOf(provider: CommerceProvider): Promise<unknown> {
  return provider.create(request, signal).catch((error: unknown) => error);
}

describe('a bounded commerce provider', () => {
  test('stops a call that does not return in time, as a transient failure', async () => {
    const hanging = resilient(
      providerWhere(() => new Promise(() => {})),
      { timeoutMs: 20 },
    );
    expect(await failureOf(hanging)).toMatchObject({ kind: 'passing', isUnsent: false });
  });

  test('counts an unknown error as transient, because the effect may have happened', async () => {
    const broken = resilient(providerWhere(() => Promise.reject(new Error('socket hang up'))));
    expect(await failureOf(broken)).toMatchObject({ kind: 'passing' });
  });

  test('rejects with the unchanged error of the provider', async () => {
    const refusal = new CommerceFailure('final', 'card closed');
    const refusing = resilient(providerWhere(() => Promise.reject(refusal)));
    expect(await failureOf(refusing)).toBe(refusal);
  });

  test('stops calls to a provider that only fails', async () => {
    let calls = 0;
    const failing = resilient(
      providerWhere(() => {
        calls += 1;
        return Promise.reject(new CommerceFailure('passing', 'busy'));
      }),
    );
    for (let n = 0; n < 500; n += 1) await failureOf(failing);
    expect(calls).toBeGreaterThan(1);
    expect(calls).toBeLessThan(500);
    expect(await failureOf(failing)).toMatchObject({ kind: 'passing', isUnsent: true });
  });

  test('makes effects while only its look-ups fail', async () => {
    const declined = new CommerceFailure('final', 'declined');
    const { lookUp, ...calls } = resilient({
      ...providerWhere(() => Promise.reject(declined)),
      lookUp: () => Promise.reject(new CommerceFailure('passing', 'busy')),
    });
    const find = () =>
      lookUp?.({ shopId: 1n, name: '#1' }, signal).catch((error: unknown) => error);
    for (let n = 0; n < 500; n += 1) await find();
    expect(await find()).toMatchObject({ isUnsent: true });
    expect(await failureOf(calls)).toBe(declined);
  });

  test('makes effects while its look-ups hang', async () => {
    const declined = new CommerceFailure('final', 'declined');
    let hanging = 0;
    const { lookUp, ...calls } = resilient({
      ...providerWhere(() => Promise.reject(declined)),
      lookUp: () => {
        hanging += 1;
        return new Promise(() => {});
      },
    });
    for (let n = 0; n < 500; n += 1)
      void lookUp?.({ shopId: 1n, name: '#1' }, signal).catch(() => {});
    expect(await failureOf(calls)).toBe(declined);
    expect(hanging).toBeLessThan(8);
  });
});
