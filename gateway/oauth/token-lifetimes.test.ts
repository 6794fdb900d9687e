import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  REDIRECT,
  type SignInStack,
  startSignInStack,
  type TokenResponse,
} from '../../test/kit/oauth/sign-in-stack.ts';

const DAY_S = 24 * 3_600;
const INVALID_GRANT = { status: 400, body: { error: 'invalid_grant' } };

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack({ replicas: 1 });
});
afterAll(() => stack.stop());

/** Makes every code and refresh token expire this number of seconds earlier. */
const shorten = (seconds: number): Promise<unknown> =>
  stack.under.database.pool.query(
    "update oauth_tickets set expires_at = expires_at - $1 * interval '1 second'",
    [seconds],
  );

const refresh = (token: unknown): Promise<TokenResponse> =>
  stack.token({ grant_type: 'refresh_token', refresh_token: String(token) });

test('a code is valid for a minute', async () => {
  const begun = stack.begin();
  const { url } = await stack.signIn(await stack.newPerson(), { begun });
  await shorten(60);
  const response = await stack.token({
    grant_type: 'authorization_code',
    code: url.searchParams.get('code') ?? '',
    redirect_uri: REDIRECT,
    code_verifier: begun.verifier,
  });
  expect(response).toMatchObject(INVALID_GRANT);
});

test('a refresh token is valid for 30 days, and each use returns a new one with the same lifetime', async () => {
  const { body } = await stack.tokens(await stack.newPerson());
  await shorten(29 * DAY_S);
  const used = await refresh(body.refresh_token);
  await shorten(29 * DAY_S);
  const last = await refresh(used.body.refresh_token);
  expect([used.status, last.status]).toEqual([200, 200]);
  await shorten(30 * DAY_S);
  expect(await refresh(last.body.refresh_token)).toMatchObject(INVALID_GRANT);
});
