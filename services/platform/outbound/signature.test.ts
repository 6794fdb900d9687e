import { expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { newSecret, sign, signingKeyOf } from './signature.ts';

const body = Buffer.from('{"name":"Grüße 😀"}');

test('Standard Webhooks verifies a signature', () => {
  const secret = newSecret();
  const timestamp = Math.floor(Date.now() / 1_000);
  const signature = sign([signingKeyOf(secret)], { id: 'msg_1', timestamp, body });
  const headers = {
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signature,
  };
  expect(new Webhook(secret).verify(body, headers)).toEqual({ name: 'Grüße 😀' });
  expect(() => new Webhook(newSecret()).verify(body, headers)).toThrow();
});

test('each valid secret signs, so that either verifies', () => {
  const secrets = [newSecret(), newSecret()];
  const timestamp = Math.floor(Date.now() / 1_000);
  const signature = sign(secrets.map(signingKeyOf), { id: 'msg_2', timestamp, body });
  const headers = {
    'webhook-id': 'msg_2',
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signature,
  };
  for (const secret of secrets) expect(new Webhook(secret).verify(body, headers)).toBeDefined();
});

test('a secret is 32 random bytes', () => {
  expect(newSecret()).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(signingKeyOf(newSecret()).symmetricKeySize).toBe(32);
});
