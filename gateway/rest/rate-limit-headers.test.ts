import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  under = await startTestGateway({ FAILED_CREDENTIALS_PER_MINUTE: 2 });
  send = restClient(under);
});
afterEach(() => under.resetServices());
afterAll(() => under?.stop());

const CART = '/api/v1/cart';

/** `r` and `t` of `RateLimit`. */
function restOf({ headers }: Received): { readonly points: number; readonly seconds: number } {
  const match = /^"requests";r=(\d+);t=(\d+)$/.exec(String(headers.ratelimit));
  if (!match) throw new Error(`no rest in ${headers.ratelimit}`);
  return { points: Number(match[1]), seconds: Number(match[2]) };
}

describe('the headers of the rate limit', () => {
  test('are in every answer to an accepted credential, and count down to a 429', async () => {
    const key = await under.newKey({ restPerMinute: 3 });
    const ask = [
      () => send({ path: CART, json: { cart: [1] }, key }),
      () => send({ path: CART, json: { cart: 7 }, key }),
      () => send({ path: '/api/v1/warehouse/return/details?return_id=999', key }),
      () => send({ path: CART, json: { cart: [1] }, key }),
    ];
    const answers: Received[] = [];
    for (const one of ask) answers.push(await one());
    expect(answers.map(({ status }) => status)).toEqual([200, 422, 404, 429]);
    for (const { headers } of answers) {
      expect(headers['ratelimit-policy']).toBe('"requests";q=3;w=60');
    }
    const rests = answers.map(restOf);
    expect(rests.map(({ points }) => points)).toEqual([2, 1, 0, 0]);
    for (const { seconds } of rests) {
      expect(seconds).toBeGreaterThanOrEqual(1);
      expect(seconds).toBeLessThanOrEqual(60);
    }
  });

  test('count a large body as several requests', async () => {
    const key = await under.newKey({ restPerMinute: 100 });
    const cart = [{ variant_id: 1, text: 'x'.repeat(200_000) }];
    const answer = await send({ path: CART, json: { cart }, key });
    expect([answer.status, restOf(answer).points]).toEqual([200, 96]);
  });

  test('are not in answers to requests that were not counted', async () => {
    const unknown = await send({ path: '/api/v1/nothing' });
    const missing = await send({ path: CART, json: {}, key: null });
    const scopeless = await send({ path: CART, json: {}, key: await under.newKey({ scopes: [] }) });
    for (const { headers } of [unknown, missing, scopeless]) {
      expect(headers).not.toHaveProperty('ratelimit');
      expect(headers).not.toHaveProperty('ratelimit-policy');
    }
  });

  test('name the limit of rejected credentials in its 429', async () => {
    const wrong = () => send({ path: CART, json: {}, key: 'rms_wrong' });
    for (const _ of [1, 2]) expect((await wrong()).status).toBe(401);
    const { status, headers } = await wrong();
    expect(status).toBe(429);
    expect(headers['ratelimit-policy']).toBe('"rejected-credentials";q=2;w=60');
    expect(headers.ratelimit).toBe(`"rejected-credentials";r=0;t=${headers['retry-after']}`);
  });
});

test.each(['/api/9999-01/webhooks', '/api/v9/webhooks'])(
  'the 404 of %s links to the documentation of a supported version',
  async (path) => {
    const { status, headers } = await send({ path });
    expect(status).toBe(404);
    const links = [...String(headers.link).matchAll(/<([^>]+)>; rel="([\w-]+)"/g)];
    expect(links.map(([, , rel]) => rel)).toEqual(['service-desc', 'service-doc', 'help']);
    for (const [, target = ''] of links) expect((await send({ path: target })).status).toBe(200);
  },
);
