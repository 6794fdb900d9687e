import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

// Headers of errors that say what to do.

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterEach(() => under.resetServices());
afterAll(() => under?.stop());

const WEBHOOKS = '/api/v1/webhooks';
const ASSESS = { path: '/api/v1/dispositioning/assess', json: { items: [{ line_item_id: 21 }] } };

test.each([
  [401, { path: WEBHOOKS }, 'developer_tools'],
  [403, ASSESS, 'returns'],
])('a %d for a key without the scope names the scope', async (status, sent, scope) => {
  const response = await send({ ...sent, key: await under.newKey({ scopes: [] }) });
  expect(response.status).toBe(status);
  expect(response.headers['www-authenticate']).toBe(
    `ApiKey realm="rms", header="X-Authorization", error="insufficient_scope", scope="${scope}"`,
  );
});

test('a key at a wrong place is answered with the right one', async () => {
  const authorization = `Bearer ${under.key}`;
  const response = await send({ path: WEBHOOKS, key: null, headers: { authorization } });
  expect(response.status).toBe(401);
  expect(response.headers['www-authenticate']).toContain(
    'error_description="send the key alone in X-Authorization, not in Authorization"',
  );
});

test('a bare # in an address is answered with how to write it', async () => {
  const { status, body } = await send({ path: '/api/v1/warehouse/return/details?order_name=' });
  const message = 'order_name must not be empty; in an address, write # as %23.';
  expect({ status, body }).toEqual({ status: 422, body: { message, errors: {} } });
});

test.each(['/webhooks', '/v1/webhooks', '/API/v1/webhooks', '/api/v1/nothing', '/api/nothing'])(
  'the 404 of the unknown path %s links to the documents',
  async (path) => {
    const { status, headers } = await send({ path });
    expect(status).toBe(404);
    const links = [...String(headers.link).matchAll(/<([^>]+)>; rel="([\w-]+)"/g)];
    expect(links.map(([, , rel]) => rel)).toEqual(['service-desc', 'service-doc', 'help']);
  },
);

test('an order name without # is answered with what may be meant', async () => {
  const path = '/api/v1/warehouse/return/details?order_name=';
  const { status, headers } = await send({ path: `${path}no%20such` });
  const hint = 'names of orders usually begin with #: try order_name=%23no%20such';
  expect({ status, hint: headers['x-service-hint'] }).toEqual({ status: 404, hint });
  const other = await send({ path: `${path}%23no` });
  expect([other.status, other.headers['x-service-hint']]).toEqual([404, undefined]);
});

test.each(['/api/2026-10/nothing', '/api/9999-01/webhooks', '/api/unstable/nothing', WEBHOOKS])(
  'an error of %s links to its explanation',
  async (path) => {
    const { headers } = await send({ path, key: null });
    const [, page = '', code = ''] = /<([^#>]+)#(\w+)>; rel="help"/.exec(`${headers.link}`) ?? [];
    const { status, text, headers: pageHeaders } = await send({ path: page });
    expect(status).toBe(200);
    expect(text).toContain(`<h2 id="${code}">`);
    expect(pageHeaders['content-security-policy']).toContain("default-src 'none'");
  },
);
