import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { type SignInStack, startSignInStack } from '../../test/kit/oauth/sign-in-stack.ts';

const SIZE = 3;
/** A form above the size limit. If the gateway read it, the status would be 413. */
const TOO_LARGE = `email=${'a'.repeat(100_000)}`;

let stack: SignInStack;

beforeAll(async () => {
  const limits = {
    CALLBACK_PER_HOUR: SIZE,
    RESUME_PER_HOUR: SIZE,
    SIGN_IN_PAGES_PER_HOUR: SIZE,
    JWKS_PER_HOUR: SIZE,
  };
  stack = await startSignInStack({ replicas: 1, ...limits });
});
afterAll(() => stack.stop());
beforeEach(() => stack.under.gateway.resetLimits());

async function request(path: string, method: string, address: string) {
  const body = method === 'POST' ? { body: TOO_LARGE } : {};
  const response = await fetch(`${stack.baseUrl}${path}`, {
    method,
    redirect: 'manual',
    headers: {
      'x-forwarded-for': address,
      'content-type': 'application/x-www-form-urlencoded',
    },
    ...body,
  });
  await response.arrayBuffer();
  return response;
}

describe('the pages of a sign-in', () => {
  test.each([
    ['GET', '/oauth/callback?state=made-up'],
    ['GET', '/oauth/authorize/made-up'],
    ['GET', '/oauth/sign-in/made-up'],
    ['POST', '/oauth/sign-in/made-up'],
    ['POST', '/oauth/sign-in/made-up/shop'],
    ['GET', '/oauth/sign-in/made-up/consent'],
    ['POST', '/oauth/sign-in/made-up/allow'],
    ['POST', '/oauth/sign-in/made-up/cancel'],
    ['GET', '/oauth/jwks'],
  ])('are limited by address before a body is read: %s %s', async (method, path) => {
    for (let count = 0; count < SIZE; count += 1) {
      expect((await request(path, method, '203.0.113.1')).status).not.toBe(429);
    }
    const rejected = await request(path, method, '203.0.113.1');
    expect(rejected.status).toBe(429);
    expect(rejected.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    expect((await request(path, method, '203.0.113.2')).status).not.toBe(429);
  });

  test('have their own rate limits: the resume path is not counted as /oauth/authorize', async () => {
    for (let count = 0; count <= SIZE; count += 1) {
      await request('/oauth/authorize/made-up', 'GET', '203.0.113.1');
    }
    const { pathname, search } = stack.begin().url;
    expect((await request(pathname + search, 'GET', '203.0.113.1')).status).not.toBe(429);
    expect((await request('/oauth/callback', 'GET', '203.0.113.1')).status).not.toBe(429);
  });
});
