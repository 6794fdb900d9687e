import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import { Browser, formOf, type Shown } from '../../test/kit/oauth/browser.ts';
import {
  type Begun,
  type Person,
  REDIRECT,
  type SignInStack,
  startSignInStack,
} from '../../test/kit/oauth/sign-in-stack.ts';

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack({ replicas: 1 });
});
afterAll(() => stack.stop());

/** Opens the identity provider's password page. */
async function toPassword(
  person: { email: string },
  begun: Begun,
  browser: Browser,
): Promise<Shown> {
  const form = await browser.open(begun.url, REDIRECT);
  const shown = await browser.submit(form, { email: person.email }, REDIRECT);
  expect(shown.text).toContain('name="password"');
  return shown;
}

describe('the callback from the identity provider', () => {
  /** Signs in at the identity provider, and returns the URL that it redirects to. */
  async function callbackOf(person: Person, browser: Browser): Promise<string> {
    const callback = `${stack.baseUrl}/oauth/callback`;
    const password = await toPassword(person, stack.begin(), browser);
    const { email, password: word } = person;
    return (await browser.submit(password, { email, password: word }, callback)).url.href;
  }

  test('works once per sign-in', async () => {
    const browser = new Browser();
    const callback = await callbackOf(await stack.newPerson(), browser);
    expect((await browser.send(callback)).status).toBe(303);
    const again = await browser.send(callback);
    expect([again.status, again.headers.get('location')]).toEqual([400, null]);
  });

  test("works only in the browser that started the sign-in, so that a link with another user's code fails", async () => {
    const attacker = new Browser();
    const callback = await callbackOf(await stack.newPerson(), attacker);
    const victim = new Browser();
    await toPassword(await stack.newPerson(), stack.begin(), victim);
    for (const browser of [new Browser(), victim]) {
      const { status, headers } = await browser.send(callback);
      expect([status, headers.get('location')]).toEqual([400, null]);
    }
  });

  test.each<[string, (url: URL) => void]>([
    ['without state', (url) => url.searchParams.delete('state')],
    ['with another state', (url) => url.searchParams.set('state', 'x'.repeat(43))],
    ['with another code', (url) => url.searchParams.set('code', 'x'.repeat(43))],
    ['without a code', (url) => url.searchParams.delete('code')],
    ['from another issuer (mix-up)', (url) => url.searchParams.set('iss', 'https://evil.example')],
    ['without its issuer', (url) => url.searchParams.delete('iss')],
    ['with two states', (url) => url.searchParams.append('state', 'x')],
    ['with two codes', (url) => url.searchParams.append('code', 'x')],
  ])('%s is rejected', async (_, change) => {
    const browser = new Browser();
    const url = new URL(await callbackOf(await stack.newPerson(), browser));
    change(url);
    const { status, headers } = await browser.send(url);
    expect([status, headers.get('location')]).toEqual([400, null]);
  });

  test('belongs to its own sign-in when a browser has two', async () => {
    const browser = new Browser();
    const [one, other] = [await stack.newPerson(), await stack.newPerson()];
    const [first, second] = [stack.begin(), stack.begin()];
    const form = await toPassword(one, first, browser);
    await toPassword(other, second, browser);
    const account = { email: one.email, password: one.password };
    const consent = await browser.submit(form, account, REDIRECT);
    const shown = await browser.submit(consent, {}, REDIRECT);
    expect(shown.url.searchParams.get('state')).toBe(first.state);
    const { body } = await stack.token({
      grant_type: 'authorization_code',
      code: shown.url.searchParams.get('code') ?? '',
      redirect_uri: REDIRECT,
      code_verifier: first.verifier,
    });
    expect(decodeJwt(String(body.access_token)).sub).toBe(String(one.userId));
  });

  /** Begins a sign-in, and returns the page after this error of the identity provider. */
  async function afterError(error: string) {
    const browser = new Browser();
    const begun = stack.begin();
    const shown = await toPassword(await stack.newPerson(), begun, browser);
    expect(shown.url.origin).toBe(stack.issuer);
    const upstream = await browserLocation(browser, begun);
    const state = new URL(upstream).searchParams.get('state') ?? '';
    const failed = new URL(`${stack.baseUrl}/oauth/callback`);
    failed.search = String(new URLSearchParams({ error, state, iss: stack.issuer }));
    return { begun, response: await browser.open(failed, REDIRECT) };
  }

  test('reports an access_denied of the identity provider to the app', async () => {
    const { begun, response } = await afterError('access_denied');
    expect(Object.fromEntries(response.url.searchParams)).toMatchObject({
      error: 'access_denied',
      state: begun.state,
    });
  });

  test.each(['temporarily_unavailable', 'server_error'])(
    'says to connect again after %s of the identity provider',
    async (error) => {
      const { response } = await afterError(error);
      expect(response.status).toBe(503);
      expect(response.text).toContain('connect again');
    },
  );

  /** Sends the form again, and returns the URL of the redirect. */
  async function browserLocation(browser: Browser, begun: Begun): Promise<string> {
    const form = await browser.send(begun.url);
    const action = /action="([^"]+)"/.exec(form.text)?.[1] ?? '';
    const body = new URLSearchParams({ email: (await stack.newPerson()).email });
    const sent = await browser.send(`${stack.baseUrl}${action}`, { method: 'POST', body });
    return sent.headers.get('location') ?? '';
  }

  test('the URL that issues the code works once, and only in the same browser', async () => {
    const person = await stack.newPerson();
    const browser = new Browser();
    const callback = await callbackOf(person, browser);
    const { action, fields } = formOf(await browser.open(callback, REDIRECT));
    const allowed = await browser.send(action, {
      method: 'POST',
      body: new URLSearchParams(fields),
    });
    const resume = new URL(allowed.headers.get('location') ?? '', stack.baseUrl);
    expect(resume.pathname).toMatch(/^\/oauth\/authorize\/[\w-]+$/);
    expect((await new Browser().send(resume)).status).toBe(400);
    expect((await browser.send(resume)).headers.get('location')).toContain(`${REDIRECT}?code=`);
    expect((await browser.send(resume)).status).toBe(400);
  });
});
