import { expect, test } from '@jest/globals';
import { Browser, formOf } from '../../test/kit/oauth/browser.ts';
import { REDIRECT, startSignInStack } from '../../test/kit/oauth/sign-in-stack.ts';

test('no code, token, state, verifier, cookie or address is logged, and of these only a code appears in a URL', async () => {
  const lines: string[] = [];
  const logDestination = { write: (line: string): void => void lines.push(line) };
  const stack = await startSignInStack({ replicas: 1, LOG_LEVEL: 'trace', logDestination });
  const person = await stack.newPerson();
  const browser = new Browser();
  const begun = stack.begin();
  const callback = `${stack.baseUrl}/oauth/callback`;
  const form = await browser.open(begun.url, REDIRECT);
  const password = await browser.submit(form, { email: person.email }, REDIRECT);
  const account = { email: person.email, password: person.password };
  const { url } = await browser.submit(password, account, callback);
  const asked = await browser.open(url, REDIRECT);
  const end = await browser.submit(asked, {}, REDIRECT);
  const code = end.url.searchParams.get('code') ?? '';
  const fields = {
    grant_type: 'authorization_code',
    code,
    redirect_uri: REDIRECT,
    code_verifier: begun.verifier,
  };
  const { body } = await stack.token(fields);
  const { body: next } = await stack.token({
    grant_type: 'refresh_token',
    refresh_token: String(body.refresh_token),
  });
  // Failures are logged as well.
  await stack.token({ ...fields, code_verifier: 'x'.repeat(43) });
  await browser.send(url);
  await stack.stopIdentity();
  await stack.stop();

  const log = lines.join('\n');
  expect(log.match(/"msg":"request"/g)?.length).toBeGreaterThan(5);
  for (const operation of ['oauthAuthorize', 'oauthSignIn', 'oauthCallback', 'oauthToken']) {
    expect(log).toContain(`"operation":"${operation}"`);
  }
  const secrets = [
    code,
    body.access_token,
    body.refresh_token,
    next.access_token,
    next.refresh_token,
    begun.state,
    begun.verifier,
    person.email,
    url.searchParams.get('code'),
    url.searchParams.get('state'),
    formOf(asked).fields.csrf,
    ...[...browser.cookies.values()].map(({ value }) => value),
  ];
  for (const secret of secrets) {
    expect(String(secret).length).toBeGreaterThan(10);
    expect(log).not.toContain(String(secret));
  }
  expect(end.url.href).not.toContain(String(body.access_token));
});
