import { describe, expect, test } from '@jest/globals';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { newKey } from '../auth/key-format.ts';
import {
  keyChallenge,
  missingChallenge,
  type Presented,
  rejectedKeyChallenge,
  scopeChallenge,
  tokenChallenge,
} from './challenge.ts';

const KEY = 'ApiKey realm="rms", header="X-Authorization"';
const HINT = `${KEY}, error="invalid_request", error_description=`;
const NOT_AUTHORIZATION = `${HINT}"send the key alone in X-Authorization, not in Authorization"`;
const NOT_ADDRESS = `${HINT}"send the key in X-Authorization, not in the address, which logs keep"`;
const key = newKey().text;
const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;
const presented = (headers: Presented['headers'], url = '/api/v1/webhooks'): Presented => ({
  headers,
  url,
});

describe('a challenge for an API key', () => {
  test.each([
    [{}, KEY],
    [{ 'x-authorization': key }, KEY],
    [{ authorization: 'Basic dXNlcjpwYXNz' }, KEY],
    [{ authorization: 'Bearer eyJhbGciOiJSUzI1NiJ9.e30.x' }, KEY],
    [{ authorization: `Bearer ${key}`, 'x-authorization': key }, KEY],
    [{ 'x-authorization': `Bearer ${key}` }, `${HINT}"send the key alone, without Bearer"`],
    [{ 'x-authorization': 'bearer x' }, `${HINT}"send the key alone, without Bearer"`],
    [{ 'x-authorization': `ApiKey ${key}` }, `${HINT}"send the key alone, without ApiKey"`],
    [{ 'x-authorization': `apikey ${key}` }, `${HINT}"send the key alone, without ApiKey"`],
    [{ 'x-authorization': `Token ${key}` }, `${HINT}"send the key alone, without Token"`],
    [{ 'x-authorization': `key=${key}` }, `${HINT}"send the key alone, without Key"`],
    [{ 'x-authorization': `"${key}"` }, `${HINT}"send the key alone, without quotes"`],
    [{ 'x-authorization': `<${key}>` }, `${HINT}"send the key alone, without brackets"`],
    [{ 'x-authorization': `${key}, ${key}` }, `${HINT}"send one key, in one header"`],
    [{ 'x-api-key': key }, `${HINT}"send the key in X-Authorization, not in X-Api-Key"`],
    [{ 'api-key': key }, `${HINT}"send the key in X-Authorization, not in Api-Key"`],
    [{ authorization: `Bearer ${key}` }, NOT_AUTHORIZATION],
    [{ authorization: `Api-Key ${key}` }, NOT_AUTHORIZATION],
    [{ authorization: `ApiKey: ${key}` }, NOT_AUTHORIZATION],
    [{ authorization: key }, NOT_AUTHORIZATION],
    [{ authorization: basic(`${key}:`) }, NOT_AUTHORIZATION],
    [{ authorization: basic(`user:${key}`) }, NOT_AUTHORIZATION],
  ])('after %j is %s', (headers, challenge) => {
    expect(keyChallenge(presented(headers))).toBe(challenge);
  });

  test.each([
    [`/cart?api_key=${key}`, NOT_ADDRESS],
    ['/cart?api_key=x', NOT_ADDRESS],
    [`/cart?token=${key}`, NOT_ADDRESS],
    ['/cart?order_name=x', KEY],
  ])('after %s is %s', (url, challenge) => {
    expect(keyChallenge(presented({}, url))).toBe(challenge);
  });

  test('is the same for all keys that are not accepted', () => {
    const rejected = `${KEY}, error="invalid_token", error_description="unknown, mistyped, expired or revoked key"`;
    for (const text of [key, key.slice(0, -1), key.toUpperCase(), 'x']) {
      expect(rejectedKeyChallenge(presented({ 'x-authorization': text }))).toBe(rejected);
    }
    const quoted = presented({ 'x-authorization': `'${key}'` });
    expect(rejectedKeyChallenge(quoted)).toBe(`${HINT}"send the key alone, without quotes"`);
  });
});

const [webhooks] = OPERATIONS.filter(({ id }) => id === 'listWebhooks');
const [carts] = OPERATIONS.filter(({ id }) => id === 'createCart');
if (!webhooks || !carts) throw new Error('there is no such operation');

test('a token for an operation that takes only keys is answered with that', () => {
  const token = { authorization: 'Bearer eyJhbGciOiJSUzI1NiJ9.e30.x' };
  expect(missingChallenge(carts, presented(token))).toBe(
    `${HINT}"this operation takes an API key in X-Authorization, and no token"`,
  );
  expect(missingChallenge(carts, presented({}))).toBe(KEY);
  const asToken = presented({ authorization: `Bearer ${key}` });
  expect(missingChallenge(carts, asToken)).toBe(NOT_AUTHORIZATION);
});

test('without a credential, a hint about a key comes first', () => {
  const bearer = 'Bearer realm="rms", scope="developer_tools"';
  expect(missingChallenge(webhooks, presented({}))).toBe(`${bearer}, ${KEY}`);
  expect(missingChallenge(webhooks, presented({ authorization: key }))).toBe(
    `${NOT_AUTHORIZATION}, ${bearer}`,
  );
});

test('a key that comes as a token is answered with both ways, that of the key first', () => {
  const token = 'Bearer realm="rms", error="invalid_token", scope="developer_tools"';
  expect(tokenChallenge(webhooks, presented({ authorization: 'Bearer x' }))).toBe(token);
  const asToken = presented({ authorization: `Bearer ${key}` });
  expect(tokenChallenge(webhooks, asToken)).toBe(`${NOT_AUTHORIZATION}, ${token}`);
});

test('a credential without the scope is answered with the name of the scope', () => {
  expect(scopeChallenge(webhooks, { scheme: 'bearer' })).toBe(
    'Bearer realm="rms", error="insufficient_scope", scope="developer_tools"',
  );
  expect(scopeChallenge(webhooks, { scheme: 'api-key' })).toBe(
    `${KEY}, error="insufficient_scope", scope="developer_tools"`,
  );
});
