import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, startMcpBench } from '../../test/kit/gateway/mcp.ts';
import { restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { TEST_AUTHOR } from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';
import { newKey, parseKey } from '../auth/key-format.ts';
import { revokeApiKey } from '../tenancy/api-keys.ts';

const lines: string[] = [];
let bench: McpBench;
beforeAll(async () => {
  const logDestination = { write: (line: string): void => void lines.push(line) };
  bench = await startMcpBench({
    LOG_LEVEL: 'info',
    logDestination,
    FAILED_CREDENTIALS_PER_MINUTE: 100_000,
  });
}, 60_000);
afterAll(() => bench?.stop());

type Line = Readonly<Record<string, unknown>>;

/** The log lines of one request, after its access log line was written. */
async function linesOf(requestId: string): Promise<Line[]> {
  return until(() => {
    const all = lines.map((line): Line => JSON.parse(line));
    const own = all.filter((line) => line.requestId === requestId);
    return own.some(({ msg }) => msg === 'request') && own;
  });
}

/** Sends a request from an IPv6 address, and returns its access log line. */
async function accessLine(sent: Sent): Promise<Line> {
  const requestId = randomUUID();
  const tracked = { 'x-request-id': requestId, 'x-forwarded-for': '2001:db8:1:2:3:4:5:6' };
  const baseUrl = `http://127.0.0.1:${bench.gateway.port}`;
  await restClient(bench)({ ...sent, baseUrl, headers: { ...sent.headers, ...tracked } });
  const [line = {}] = (await linesOf(requestId)).filter(({ msg }) => msg === 'request');
  return line;
}

const idOf = (key: string): string => parseKey(key)?.keyId ?? '';
const CART = { path: '/api/v1/cart', json: { cart: [1] } };

describe('an access line', () => {
  test('has the IP address of the caller, however the request ends', async () => {
    const address = '2001:db8:1:2::/64';
    expect(await accessLine(CART)).toMatchObject({
      address,
      status: 200,
      actorId: idOf(bench.key),
    });
    expect(await accessLine({ path: '/nothing' })).toMatchObject({ address, status: 404 });
    expect(await accessLine({ path: '/oauth/authorize' })).toMatchObject({ address });
  });

  test('never has the token of a cart, which is a secret', async () => {
    for (const token of [FAKE.cartToken, 'n'.repeat(43)]) {
      const line = await accessLine({ path: `/api/v1/cart/${token}` });
      expect(line).toMatchObject({ operation: 'getCart' });
      expect(await linesOf(String(line.requestId))).toHaveLength(1);
      expect(JSON.stringify(await linesOf(String(line.requestId)))).not.toContain(token);
    }
  });

  test('has the reason why a key was rejected, and the id of the key', async () => {
    const revoked = await bench.newKey();
    await revokeApiKey(bench.database.pool, { shopId: 1n, keyId: revoked, by: TEST_AUTHOR });
    const expired = await bench.newKey({ expiresAt: new Date(Date.now() - 1_000) });
    const unknown = newKey().text;
    const cut = bench.key.slice(0, -1);
    // A wrong secret with a correct checksum for the id of an existing key.
    const stored = newKey();
    await bench.newKey({ text: stored.text });
    await bench.database.pool.query(
      `update api_keys set secret_hash = sha256('another') where key_id = $1`,
      [stored.keyId],
    );
    const cases: [string, string, string | undefined][] = [
      [revoked, 'revoked', idOf(revoked)],
      [expired, 'expired', idOf(expired)],
      [unknown, 'unknown key', idOf(unknown)],
      [stored.text, 'wrong secret', stored.keyId],
      [cut, 'malformed', idOf(bench.key)],
      ['rms_UPPERCASEID_x', 'malformed', undefined],
      ['hunter2', 'malformed', undefined],
    ];
    for (const [key, refused, keyId] of cases) {
      const line = await accessLine({ ...CART, key });
      expect(line).toMatchObject({ status: 401, refused });
      expect(line.keyId).toBe(keyId);
      expect(line).not.toHaveProperty('actorId');
      const secret = parseKey(key)?.secret ?? key;
      expect(lines.join('')).not.toContain(secret);
    }
    expect(await accessLine({ ...CART, key: null })).toMatchObject({
      refused: 'credential missing',
    });
  });

  test('has the reason of a missing scope, and the id of the key', async () => {
    const key = await bench.newKey({ scopes: ['returns'] });
    const [refused, actorId, shopId] = ['scope missing', idOf(key), '1'];
    expect(await accessLine({ ...CART, key })).toMatchObject({ refused, actorId, shopId });
  });

  test('has the reason why a token was rejected', async () => {
    const hooks = { path: '/api/v1/webhooks' };
    const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
    expect(await accessLine({ ...hooks, ...bearer('a b') })).toMatchObject({
      refused: 'malformed',
    });
    expect(await accessLine({ ...hooks, ...bearer('abc') })).toMatchObject({
      refused: 'partner tokens not configured',
    });
    const mcp = { path: '/mcp', json: {}, key: null };
    expect(await accessLine(mcp)).toMatchObject({ refused: 'credential missing' });
    expect(await accessLine({ ...mcp, ...bearer('abc.def.ghi') })).toMatchObject({
      status: 401,
      refused: 'token not accepted',
    });
    const headers = { origin: 'https://evil.example' };
    expect(await accessLine({ ...mcp, headers })).toMatchObject({ refused: 'origin' });
  });
});

test('a tool call without the permission has its own log line', async () => {
  const { token, userId } = await bench.member('analyst');
  const requestId = randomUUID();
  await bench.post({
    token,
    headers: { 'x-request-id': requestId },
    body: {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'process_return', arguments: { return_id: 11 } },
    },
  });
  expect(await linesOf(requestId)).toContainEqual(
    expect.objectContaining({
      msg: 'tool call refused',
      level: 'warn',
      refused: 'permission missing',
      tool: 'process_return',
      shopId: '1',
      actorId: String(userId),
      role: 'analyst',
      address: '127.0.0.1',
    }),
  );
});
