import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type SignInStack, startSignInStack } from '../../test/kit/oauth/sign-in-stack.ts';

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack({ replicas: 1, bodyBudget: { caller: 2_000 } });
});
afterAll(() => stack.stop());

test.each(['/oauth/register', '/oauth/token', '/oauth/sign-in/x', '/oauth/sign-in/x/allow'])(
  '%s charges bodies to the budget of the address',
  async (path) => {
    const post = (size: number) =>
      fetch(`${stack.baseUrl}${path}`, { method: 'POST', body: 'x'.repeat(size) });
    const rejected = await post(2_001);
    expect(rejected.status).toBe(429);
    expect(rejected.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    expect(await rejected.json()).toMatchObject({ error: 'temporarily_unavailable', errors: {} });
    for (let nth = 0; nth < 3; nth += 1) expect((await post(1_500)).status).toBeLessThan(429);
  },
);
