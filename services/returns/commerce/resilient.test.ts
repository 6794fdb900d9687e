import { describe, expect, test } from '@jest/globals';
import { CommerceFailure, type CommerceProvider, type CommerceRequest } from './provider.ts';
import { resilient } from './resilient.ts';

const request: CommerceRequest = {
  shopId: 1n,
  returnId: 1n,
  providerOrderId: 1n,
  idempotencyKey: 'k',
  amount: '1.00',
  currency: 'GBP',
};
const signal = new AbortController().signal;

function providerWhere(createRefund: CommerceProvider['createRefund']): CommerceProvider {
  const unused = () => Promise.reject(new Error('not asked in this test'));
  return { createExchangeOrder: unused, issueGiftCard: unused, createRefund };
}

async function failureOf(provider: CommerceProvider): Promise<unknown> {
  return provider.createRefund(request, signal).catch((error: unknown) => error);
}

describe('a bounded commerce provider', () => {
  test('stops a call that does not return in time, as a transient failure', async () => {
    const hanging = resilient(
      providerWhere(() => new Promise(() => {})),
      { timeoutMs: 20 },
    );
    expect(await failureOf(hanging)).toMatchObject({ kind: 'passing' });
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
  });
});
