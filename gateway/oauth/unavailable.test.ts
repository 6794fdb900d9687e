import { once } from 'node:events';
import { createServer } from 'node:http';
import { describe, expect, test } from '@jest/globals';
import { freePorts } from '../../deploy/local/free-ports.ts';
import { newKeyringText, parseKeyring } from '../../services/platform/keyring.ts';
import { startTestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { Browser } from '../../test/kit/oauth/browser.ts';
import { SIGN_IN_CLIENT } from '../../test/kit/oauth/fake-identity.ts';
import {
  CLIENT_ID,
  REDIRECT,
  signInSettings,
  startSignInStack,
} from '../../test/kit/oauth/sign-in-stack.ts';

describe('while the identity provider is unavailable', () => {
  test('a page says so at the start of a sign-in and at the callback', async () => {
    const OAUTH_KEYRING = parseKeyring(newKeyringText());
    const stack = await startSignInStack({ replicas: 1, OAUTH_KEYRING });
    const person = await stack.newPerson();
    const browser = new Browser();
    const form = await browser.open(stack.begin({ login_hint: person.email }).url, REDIRECT);
    const callback = `${stack.baseUrl}/oauth/callback`;
    const { email, password } = person;
    const back = await browser.submit(form, { email, password }, callback);

    const fresh = await startTestGateway({
      DATABASE_URL: stack.under.database.url,
      PUBLIC_BASE_URL: stack.baseUrl,
      ...signInSettings(stack.issuer, SIGN_IN_CLIENT),
      OAUTH_KEYRING,
    });
    await stack.stopIdentity();
    const { pathname, search } = stack.begin().url;
    const responses = [
      await browser.send(back.url),
      await new Browser().send(`${fresh.gateway.baseUrl}${pathname}${search}`),
    ];
    await fresh.stop();
    await stack.stop();
    for (const { status, headers, text } of responses) {
      expect([status, headers.get('retry-after')]).toEqual([503, '5']);
      expect(text).toContain('The page where you sign in does not answer');
    }
  });
});

test.each([
  {},
  { authorization_endpoint: 'javascript:alert(1)', token_endpoint: 'x', jwks_uri: 5 },
])(
  'an identity provider with unusable metadata is unavailable until its metadata changes: %j',
  async (metadata) => {
    const identity = createServer((_req, res) => {
      res
        .setHeader('Content-Type', 'application/json')
        .end(JSON.stringify({ issuer, ...metadata }));
    });
    const [port = 0] = await freePorts(1);
    const issuer = `http://127.0.0.1:${port}`;
    await once(identity.listen(port, '127.0.0.1'), 'listening');
    const gateway = await startTestGateway({
      PUBLIC_BASE_URL: 'http://127.0.0.1:1',
      ...signInSettings(issuer, SIGN_IN_CLIENT),
      OAUTH_KEYRING: parseKeyring(newKeyringText()),
    });
    const query = new URLSearchParams({
      response_type: 'code',
      client_id: CLIENT_ID,
      redirect_uri: REDIRECT,
      code_challenge: 'x'.repeat(43),
      code_challenge_method: 'S256',
    });
    const begin = `http://127.0.0.1:${gateway.gateway.port}/oauth/authorize?${query}`;
    const responses = [
      await new Browser().send(begin),
      await new Browser().send(`${begin}&login_hint=somebody@example.com`),
    ];
    await gateway.stop();
    identity.close();
    for (const { status, text } of responses) {
      expect([status, text.includes('does not answer')]).toEqual([503, true]);
    }
  },
);

describe('while the database is unavailable', () => {
  test('every sign-in fails with 503', async () => {
    const withoutDatabase = await startTestGateway({
      DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
      PUBLIC_BASE_URL: 'http://127.0.0.1:1',
      ...signInSettings('http://127.0.0.1:1', SIGN_IN_CLIENT),
      OAUTH_KEYRING: parseKeyring(newKeyringText()),
    });
    const base = `http://127.0.0.1:${withoutDatabase.gateway.port}`;
    const responses = await Promise.all([
      fetch(`${base}/oauth/token`, { method: 'POST', body: new URLSearchParams({ code: 'x' }) }),
      fetch(`${base}/oauth/register`, { method: 'POST' }),
      fetch(`${base}/oauth/authorize?redirect_uri=${REDIRECT}`),
      fetch(`${base}/oauth/authorize/x`),
      fetch(`${base}/oauth/callback?state=x&code=y`),
      fetch(`${base}/oauth/sign-in/x`, { method: 'POST', headers: { cookie: 'rms_sign_in=x' } }),
      fetch(`${base}/oauth/jwks`),
      fetch(`${base}/.well-known/oauth-authorization-server`),
    ]);
    await withoutDatabase.stop();
    for (const { status, headers, url } of responses) {
      expect([url, status, headers.get('retry-after')]).toEqual([url, 503, expect.any(String)]);
    }
    expect(await responses[0]?.json()).toMatchObject({ error: 'temporarily_unavailable' });
  });
});

test('without an identity provider the service serves metadata, and every sign-in fails', async () => {
  const withoutSignIn = await startTestGateway({ PUBLIC_BASE_URL: 'http://127.0.0.1:1' });
  const base = `http://127.0.0.1:${withoutSignIn.gateway.port}`;
  const [metadata, ...others] = await Promise.all([
    fetch(`${base}/.well-known/oauth-authorization-server`),
    fetch(`${base}/oauth/authorize`),
    fetch(`${base}/oauth/token`, { method: 'POST' }),
    fetch(`${base}/oauth/register`, { method: 'POST' }),
    fetch(`${base}/oauth/jwks`),
    fetch(`${base}/oauth/callback`),
  ]);
  await withoutSignIn.stop();
  expect(metadata.status).toBe(200);
  expect(others.map(({ status }) => status)).toEqual([503, 503, 503, 503, 503]);
});

test('requests for unknown metadata paths are rate limited', async () => {
  const withoutSignIn = await startTestGateway({ PUBLIC_BASE_URL: 'http://127.0.0.1:1' });
  const request = () => fetch(`http://127.0.0.1:${withoutSignIn.gateway.port}/.well-known/nothing`);
  const statuses: number[] = [];
  for (let at = 0; at < 101; at += 1) statuses.push((await request()).status);
  await withoutSignIn.stop();
  expect(new Set(statuses.slice(0, 100))).toEqual(new Set([404]));
  expect(statuses[100]).toBe(429);
});
