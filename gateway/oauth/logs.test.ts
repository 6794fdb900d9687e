import { expect, test } from '@jest/globals';
import { Browser, formOf } from '../../test/kit/oauth/browser.ts';
import { REDIRECT, startSignInStack } from '../../test/kit/oauth/sign-in-stack.ts';

test('the log contains no code, token, state, verifier, cookie or e-mail address, and no URL contains an access token', async () => {
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
  const consent = await browser.open(url, REDIRECT);
  const shown = await browser.submit(consent, {}, REDIRECT);
  const code = shown.url.searchParams.get('code') ?? '';
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
    formOf(consent).fields.csrf,
    ...[...browser.cookies.values()].map(({ value }) => value),
  ];
  for (const secret of secrets) {
    expect(String(secret).length).toBeGreaterThan(10);
    expect(log).not.toContain(String(secret));
  }
  expect(shown.url.href).not.toContain(String(body.access_token));
});
