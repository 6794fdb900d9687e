import { describe, expect, test } from '@jest/globals';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { newKey } from '../auth/key-format.ts';
import { keyChallenge, keyOnlyChallenge, scopeChallenge, tokenChallenge } from './challenge.ts';

const KEY = 'ApiKey realm="rms", header="X-Authorization"';
const HINT = `${KEY}, error="invalid_request", error_description=`;
const key = newKey().text;

describe('a challenge for an API key', () => {
  test.each([
    [{}, KEY],
    [{ 'x-authorization': key }, KEY],
    [{ authorization: 'Basic dXNlcjpwYXNz' }, KEY],
    [{ authorization: 'Bearer eyJhbGciOiJSUzI1NiJ9.e30.x' }, KEY],
    [{ authorization: `Bearer ${key}`, 'x-authorization': key }, KEY],
    [{ 'x-authorization': `Bearer ${key}` }, `${HINT}"send the key alone, without Bearer"`],
    [{ 'x-authorization': 'bearer x' }, `${HINT}"send the key alone, without Bearer"`],
    [{ 'x-api-key': key }, `${HINT}"send the key in X-Authorization, not in X-Api-Key"`],
    [
      { authorization: `Bearer ${key}` },
      `${HINT}"send the key alone in X-Authorization, not in Authorization"`,
    ],
    [
      { authorization: key },
      `${HINT}"send the key alone in X-Authorization, not in Authorization"`,
    ],
  ])('after %j is %s', (headers, challenge) => {
    expect(keyChallenge(headers)).toBe(challenge);
  });
});

test('a token for an operation that takes only keys is answered with that', () => {
  const token = { authorization: 'Bearer eyJhbGciOiJSUzI1NiJ9.e30.x' };
  expect(keyOnlyChallenge(token)).toBe(
    `${HINT}"this operation takes an API key in X-Authorization, and no token"`,
  );
  for (const headers of [{}, { ...token, 'x-authorization': key }]) {
    expect(keyOnlyChallenge(headers)).toBe(KEY);
  }
  expect(keyOnlyChallenge({ authorization: `Bearer ${key}` })).toContain('send the key alone');
});

const [webhooks] = OPERATIONS.filter(({ id }) => id === 'listWebhooks');
if (!webhooks) throw new Error('there is no such operation');

test('a key that comes as a token is answered with both ways', () => {
  const token = 'Bearer realm="rms", error="invalid_token", scope="developer_tools"';
  expect(tokenChallenge(webhooks, { authorization: 'Bearer x' })).toBe(token);
  expect(tokenChallenge(webhooks, { authorization: `Bearer ${key}` })).toBe(
    `${token}, ${HINT}"send the key alone in X-Authorization, not in Authorization"`,
  );
});

test('a credential without the scope is answered with the name of the scope', () => {
  expect(scopeChallenge(webhooks, { scheme: 'bearer' })).toBe(
    'Bearer realm="rms", error="insufficient_scope", scope="developer_tools"',
  );
  expect(scopeChallenge(webhooks, { scheme: 'api-key' })).toBe(
    `${KEY}, error="insufficient_scope", scope="developer_tools"`,
  );
});
