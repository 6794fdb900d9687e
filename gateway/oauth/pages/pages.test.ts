import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Browser, type Shown } from '../../../test/kit/oauth/browser.ts';
import {
  REDIRECT,
  type SignInStack,
  startSignInStack,
} from '../../../test/kit/oauth/sign-in-stack.ts';
import { consentPage } from './consent-page.ts';
import { emailPage, messagePage, shopPage } from './pages.ts';

const HOSTILE = `"><script>alert(1)</script><img src=x onerror='alert(1)'>&amp;\``;

describe('pages', () => {
  const app = { name: HOSTILE, host: HOSTILE };
  const action = '/oauth/sign-in/x';
  test.each([
    ['email', emailPage({ action, app, email: HOSTILE, problem: HOSTILE })],
    ['shop', shopPage({ action, app, shops: [{ shopId: 1n, name: HOSTILE }], problem: HOSTILE })],
    [
      'consent',
      consentPage({
        allow: action,
        cancel: action,
        app,
        isOnUsersMachine: true,
        selfName: undefined,
        shop: { shopId: 1n, name: HOSTILE, role: 'owner' },
        email: HOSTILE,
        csrf: HOSTILE,
        grantDays: 90,
      }),
    ],
    ['message', messagePage({ title: HOSTILE, text: HOSTILE, cancel: action })],
  ])('%s: inserted values are escaped', (_, page) => {
    expect(page).not.toMatch(/<script|<img|onerror='|&amp;`/);
    expect(page).toContain('&#60;script&#62;');
    expect(page.match(/<h1>/g)).toHaveLength(1);
    expect(page).toMatch(/^<!doctype html>\n<html lang="en">/);
    expect(page).toContain('name="viewport"');
  });
});

describe('headers and cookies of a page', () => {
  let stack: SignInStack;
  let shown: Shown;
  beforeAll(async () => {
    const SIGN_IN_FORM_ORIGINS = ['https://login.example.com'];
    stack = await startSignInStack({ replicas: 1, SIGN_IN_FORM_ORIGINS });
    shown = await new Browser().send(stack.begin().url);
  });
  afterAll(() => stack.stop());

  test('the headers forbid scripts, resources, frames, and forms to unknown origins', () => {
    const policy = shown.headers.get('content-security-policy') ?? '';
    const [source] = /sha256-[A-Za-z0-9+/=]+/.exec(policy) ?? [];
    expect(policy.split('; ')).toEqual([
      "default-src 'none'",
      `style-src '${source}'`,
      'img-src data:',
      "base-uri 'none'",
      `form-action 'self' ${stack.issuer} https://login.example.com ${new URL(REDIRECT).origin}`,
      "frame-ancestors 'none'",
    ]);
    expect(Object.fromEntries(shown.headers)).toMatchObject({
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'same-origin',
      'cache-control': 'no-store',
      'cross-origin-opener-policy': 'unsafe-none',
      'content-type': 'text/html; charset=utf-8',
    });
    expect(shown.text).not.toMatch(
      /<script|<link(?! rel="icon" type="image\/svg\+xml" href="data:)|style="|https?:\/\/(?!127)/,
    );
  });

  test('cookies are HttpOnly and SameSite=Lax', async () => {
    const browser = new Browser();
    const form = await browser.send(stack.begin().url);
    const action = /action="([^"]+)"/.exec(form.text)?.[1] ?? '';
    const body = new URLSearchParams({ email: 'somebody@example.com' });
    await browser.send(`${stack.baseUrl}${action}`, { method: 'POST', body });
    const names = [...browser.cookies.keys()].map((key) => key.split(' ')[0]);
    expect(names.toSorted()).toEqual(['rms_browser', 'rms_resume', 'rms_sign_in']);
    for (const { attributes } of browser.cookies.values()) {
      expect(attributes).toMatch(/httponly/i);
      expect(attributes).toMatch(/samesite=lax/i);
    }
  });

  test('over https the cookies are secure and bound to this host', async () => {
    const secure = await startSignInStack({
      replicas: 1,
      PUBLIC_BASE_URL: 'https://returns.example.com',
    });
    const browser = new Browser();
    const { port } = secure.under.gateway;
    const { pathname, search } = secure.begin({ login_hint: 'somebody@example.com' }).url;
    const { status } = await browser.send(`http://127.0.0.1:${port}${pathname}${search}`);
    await secure.stop();
    expect(status).toBe(303);
    const names = [...browser.cookies.keys()].map((key) => key.split(' ')[0]);
    expect(names.toSorted()).toEqual([
      '__Host-rms_browser',
      '__Secure-rms_resume',
      '__Secure-rms_sign_in',
    ]);
    for (const { attributes } of browser.cookies.values()) expect(attributes).toMatch(/secure/i);
  });
});
