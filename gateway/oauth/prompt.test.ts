import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Browser } from '../../test/kit/oauth/browser.ts';
import {
  REDIRECT,
  type SignInStack,
  startSignInStack,
} from '../../test/kit/oauth/sign-in-stack.ts';

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack({ replicas: 1 });
});
afterAll(() => stack.stop());

describe('prompt', () => {
  test.each([
    [undefined, null],
    ['consent', null],
    ['login', 'login'],
    ['select_account', 'select_account'],
    ['select_account consent login something', 'login select_account'],
  ])('%j reaches the identity provider as %j', async (prompt, expected) => {
    const { url } = stack.begin({ prompt, login_hint: 'somebody@example.com' });
    const { headers } = await new Browser().send(url);
    const upstream = new URL(headers.get('location') ?? '');
    expect(upstream.href.startsWith(`${stack.issuer}/authorize?`)).toBe(true);
    expect(upstream.searchParams.get('prompt')).toBe(expected);
  });

  test('login needs a new sign-in of a user who is signed in at the identity provider', async () => {
    const { email, password } = await stack.newPerson();
    const browser = new Browser();
    await stack.signIn({ email, password, userId: 0n, shopIds: [] }, { browser });
    const withoutPrompt = await browser.open(stack.begin({ login_hint: email }).url, REDIRECT);
    expect(withoutPrompt.url.searchParams.has('code')).toBe(true);
    const again = stack.begin({ login_hint: email, prompt: 'login' });
    const page = await browser.open(again.url, REDIRECT);
    expect(page.text).toContain('name="password"');
    const shown = await browser.submit(page, { email, password }, REDIRECT);
    expect(shown.url.searchParams.has('code')).toBe(true);
  });

  test.each(['select_account', 'select_account login'])(
    '%s is sent again without select_account if the identity provider does not support it',
    async (prompt) => {
      const person = await stack.newPerson();
      const shown = await stack.signIn(person, { begun: stack.begin({ prompt }) });
      expect(shown.url.href.startsWith(`${REDIRECT}?code=`)).toBe(true);
    },
  );

  test('consent always shows the consent page', async () => {
    const { email, password } = await stack.newPerson();
    const browser = new Browser();
    const begun = stack.begin({ prompt: 'consent', login_hint: email });
    const form = await browser.open(begun.url, REDIRECT);
    const page = await browser.submit(form, { email, password }, REDIRECT);
    expect(page.text).toContain('/allow"');
    const shown = await browser.submit(page, {}, REDIRECT);
    expect(shown.url.href.startsWith(`${REDIRECT}?code=`)).toBe(true);
  });
});
