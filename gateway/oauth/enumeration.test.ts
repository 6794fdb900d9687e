import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Browser, type Shown } from '../../test/kit/oauth/browser.ts';
import { type SignInStack, startSignInStack } from '../../test/kit/oauth/sign-in-stack.ts';

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack({ replicas: 1 });
});
afterAll(() => stack.stop());

describe('a known e-mail address cannot be distinguished from an unknown one', () => {
  const UNKNOWN = 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6@example.com';
  const shapeOf = ({ status, headers, text }: Shown) => ({
    status,
    length: text.length,
    headers: Object.fromEntries(
      [...headers]
        .filter(([name]) => !['date', 'x-request-id'].includes(name))
        .map(([name, value]) => [
          name,
          value.replace(/[\w-]{21,}/g, (secret) => `<${secret.length}>`),
        ]),
    ),
  });

  const ways: Record<string, (email: string) => Promise<Shown>> = {
    'by login_hint': (email) => new Browser().send(stack.begin({ login_hint: email }).url),
    'by the form': async (email) => {
      const browser = new Browser();
      const form = await browser.send(stack.begin().url);
      const action = /action="([^"]+)"/.exec(form.text)?.[1] ?? '';
      const body = new URLSearchParams({ email });
      return browser.send(`${stack.baseUrl}${action}`, { method: 'POST', body });
    },
  };

  const responseTo = (way: string, email: string): Promise<Shown> => {
    const send = ways[way];
    if (!send) throw new Error(`no way ${way}`);
    return send(email);
  };

  test.each(Object.keys(ways))('by status, headers and length %s', async (way) => {
    const { email } = await stack.newPerson();
    const shapes = await Promise.all(
      [email, UNKNOWN].map(async (one) => shapeOf(await responseTo(way, one))),
    );
    const [known, unknown] = shapes.map((shape, at) => {
      const address = [email, UNKNOWN][at] ?? '';
      return JSON.parse(JSON.stringify(shape).replaceAll(encodeURIComponent(address), '<address>'));
    });
    expect(known.status).toBe(303);
    expect(unknown).toEqual(known);
  });

  test('by response time', async () => {
    const { email } = await stack.newPerson();
    const times = new Map<string, number[]>([email, UNKNOWN].map((one) => [one, []]));
    const median = (one: string) => {
      const sorted = (times.get(one) ?? []).toSorted((a, b) => a - b);
      return sorted[Math.floor(sorted.length / 2)] ?? 0;
    };
    let difference = 1;
    // More rounds remove the noise of a busy machine, but not a real difference.
    for (let round = 0; round < 20 && difference > 0.05; round += 1) {
      for (let pair = 0; pair < 40; pair += 1) {
        for (const one of pair % 2 === 0 ? [email, UNKNOWN] : [UNKNOWN, email]) {
          const { url } = stack.begin({ login_hint: one });
          const before = performance.now();
          await new Browser().send(url);
          times.get(one)?.push(performance.now() - before);
        }
      }
      difference = Math.abs(median(email) / median(UNKNOWN) - 1);
    }
    expect(difference).toBeLessThanOrEqual(0.05);
  }, 120_000);
});
