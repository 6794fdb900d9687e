import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import {
  REDIRECT,
  type SignInStack,
  startSignInStack,
} from '../../test/support/oauth/sign-in-stack.ts';

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack({ logLevel: 'error' });
});
afterAll(() => stack.stop());

describe('sign-in', () => {
  test('with one shop ends with tokens for it', async () => {
    const person = await stack.newPerson();
    const begun = stack.begin();
    const { url } = await stack.signIn(person, { begun });
    expect(url.href.startsWith(REDIRECT)).toBe(true);
    expect(url.searchParams.get('state')).toBe(begun.state);
    expect(url.searchParams.get('iss')).toBe(stack.baseUrl);
    const { status, body } = await stack.token({
      grant_type: 'authorization_code',
      code: url.searchParams.get('code') ?? '',
      redirect_uri: REDIRECT,
      code_verifier: begun.verifier,
    });
    expect({ status, body }).toMatchObject({
      status: 200,
      body: {
        token_type: 'Bearer',
        expires_in: 43_200,
        scope: 'mcp',
        refresh_token: expect.any(String),
        access_token: expect.any(String),
      },
    });
    const token = String(body.access_token);
    expect(decodeProtectedHeader(token)).toMatchObject({ alg: 'ES256', typ: 'at+jwt' });
    expect(decodeJwt(token)).toMatchObject({
      iss: stack.baseUrl,
      aud: `${stack.baseUrl}/mcp`,
      sub: String(person.userId),
      shop_id: String(person.shopIds[0]),
      client_id: 'rms-mcp',
      scope: 'mcp',
      jti: expect.any(String),
      grant_id: expect.any(String),
    });
  });
});
