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

  test('show the limit of a credential that lacks the scope, and do not count it', async () => {
    const key = await under.newKey({ scopes: [], restPerMinute: 5 });
    for (const _ of [1, 2]) {
      const { status, headers } = await send({ path: CART, json: {}, key });
      expect([status, headers['ratelimit-policy'], headers.ratelimit]).toEqual([
        ...[401, '"requests";q=5;w=60', '"requests";r=5;t=60'],
      ]);
    }
  });

  test.each([
    ['an unknown path', 404, { path: '/api/v1/nothing' }],
    ['an unknown version', 404, { path: '/api/2020-01/cart' }],
    ['an unknown method', 405, { path: CART, method: 'PATCH' }],
    ['OPTIONS', 204, { path: CART, method: 'OPTIONS' }],
  ])('are absent while no credential was read: %s', async (_, status, sent) => {
    const answer = await send(sent);
    expect(answer.status).toBe(status);
    expect(answer.headers).not.toHaveProperty('ratelimit');
    expect(answer.headers).not.toHaveProperty('ratelimit-policy');
  });

  test('show the limit of the address without a credential', async () => {
    const headers = { 'x-forwarded-for': '203.0.113.7' };
    const answer = await send({ path: CART, json: {}, key: null, headers });
    expect(answer.status).toBe(401);
    expect(answer.headers['ratelimit-policy']).toBe('"rejected-credentials";q=2;w=60');
    expect(answer.headers.ratelimit).toBe('"rejected-credentials";r=2;t=60');
  });

  test.each([
    ['not JSON', 400, { raw: '{', headers: { 'content-type': 'application/json' } }],
    ['no JSON type', 415, { raw: '{}', headers: { 'content-type': 'text/plain' } }],
    [
      'too large',
      413,
      { raw: ' '.repeat(2 ** 20 + 1), headers: { 'content-type': 'application/json' } },
    ],
  ])('are in the answer to a body that is %s', async (_, status, sent) => {
    const answer = await send({ path: CART, ...sent });
    expect(answer.status).toBe(status);
    expect(restOf(answer).points).toBeGreaterThan(0);
  });

  test('count rejected credentials down to a 429', async () => {
    const wrong = () => send({ path: CART, json: {}, key: 'rms_wrong' });
    const answers = [await wrong(), await wrong(), await wrong()];
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 429]);
    for (const { headers } of answers) {
      expect(headers['ratelimit-policy']).toBe('"rejected-credentials";q=2;w=60');
    }
    const rests = answers.map(({ headers }) => {
      return /^"rejected-credentials";r=(\d);t=(\d+)$/.exec(String(headers.ratelimit));
    });
    expect(rests.map((one) => one?.[1])).toEqual(['1', '0', '0']);
    const seconds = Number(rests[2]?.[2]);
    expect(Number(answers[2]?.headers['retry-after']) - seconds).toBeLessThanOrEqual(1);
    const other = await send({ path: CART, json: {}, key: null });
    expect(other.headers.ratelimit).toMatch(/^"rejected-credentials";r=0;/);
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
