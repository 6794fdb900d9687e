import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { loadConfig } from '../../services/platform/config.ts';
import { type SignInStack, startSignInStack } from '../../test/kit/oauth/sign-in-stack.ts';
import { hourlyShape } from './hourly-limits.ts';

/** Tool calls per hour in this test, the same number as the other limits. */
const MCP_CALLS = 100;

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack({ ...loadConfig(hourlyShape, {}), MCP_CALLS_PER_HOUR: MCP_CALLS });
}, 60_000);
afterAll(() => stack?.stop(), 60_000);

interface Sent {
  readonly path: string;
  readonly address: string;
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

function send({ path, address, headers, ...rest }: Sent, replica: number): Promise<Response> {
  return fetch(`${stack.replicas[replica]}${path}`, {
    redirect: 'manual',
    ...rest,
    headers: { 'x-forwarded-for': address, ...headers },
  });
}

/** Sends 250 concurrent requests alternately to two replicas, and returns how many were admitted. */
async function admitted(sent: Sent): Promise<number> {
  const responses = await Promise.all(
    Array.from({ length: 250 }, async (_, at) => {
      const response = await send(sent, at % 2);
      await response.arrayBuffer();
      return response.status;
    }),
  );
  return responses.filter((status) => status !== 429).length;
}

const form = { 'content-type': 'application/x-www-form-urlencoded' };
const json = { 'content-type': 'application/json' };

describe('two gateways over one database', () => {
  test.each<[string, number, Omit<Sent, 'address' | 'path'>]>([
    ['/.well-known/oauth-protected-resource', 100, {}],
    ['/.well-known/oauth-authorization-server', 100, {}],
    ['/oauth/register', 50, { method: 'POST', headers: json, body: '{}' }],
    ['/oauth/authorize?client_id=nobody', 100, {}],
    ['/oauth/token', 100, { method: 'POST', headers: form, body: 'grant_type=x' }],
  ])(
    'admit at %s exactly %d',
    async (path, limit, sent) => {
      const address = `203.0.113.${path.length}`;
      expect(await admitted({ path, ...sent, address })).toBe(limit);
    },
    60_000,
  );

  test('count the metadata documents together, and ignore forged addresses', async () => {
    const path = '/.well-known/openid-configuration';
    const address = '198.51.100.1, 203.0.113.201';
    expect(await admitted({ path, address })).toBe(100);
    const other = { path: '/.well-known/oauth-protected-resource/mcp', address: '203.0.113.201' };
    const rejected = await send(other, 0);
    expect(rejected.status).toBe(429);
    expect(rejected.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    expect(rejected.headers.get('access-control-allow-origin')).toBe('*');
    expect(await rejected.json()).toMatchObject({ error: 'temporarily_unavailable', errors: {} });
  }, 60_000);

  test('do not count the resume path against the limit of /oauth/authorize', async () => {
    expect(await admitted({ path: '/oauth/authorize/nobody', address: '203.0.113.202' })).toBe(250);
  }, 60_000);

  test('admit exactly the limit of tool calls of a user', async () => {
    const user = await stack.newPerson();
    const { body } = await stack.tokens(user);
    const authorization = `Bearer ${String(body.access_token)}`;
    const call = { jsonrpc: '2.0', id: 1, method: 'tools/call' };
    const params = { name: 'get_shop_context', arguments: {} };
    const sent = {
      path: '/mcp',
      address: '203.0.113.203',
      method: 'POST',
      headers: { ...json, authorization },
      body: JSON.stringify({ ...call, params }),
    };
    expect(await admitted(sent)).toBe(MCP_CALLS);
  }, 60_000);
});
