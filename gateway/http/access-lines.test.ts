import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { buffer, text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import express from 'express';
import fc from 'fast-check';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, startMcpBench } from '../../test/kit/gateway/mcp.ts';
import { restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { TEST_AUTHOR } from '../../test/kit/gateway/test-gateway.ts';
import { type SignInStack, startSignInStack } from '../../test/kit/oauth/sign-in-stack.ts';
import { until } from '../../test/kit/until.ts';
import { newKey, parseKey } from '../auth/key-format.ts';
import { revokeApiKey } from '../tenancy/api-keys.ts';
import { type Asset, sendAsset } from './asset.ts';
import { startHttpServer } from './server.ts';

describe('access lines', () => {
  const lines: string[] = [];
  let bench: McpBench;
  beforeAll(async () => {
    const logDestination = { write: (line: string): void => void lines.push(line) };
    bench = await startMcpBench({
      LOG_LEVEL: 'info',
      logDestination,
      FAILED_CREDENTIALS_PER_MINUTE: 100_000,
    });
  });
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
      for (const token of ['a b', 'abc']) {
        const line = await accessLine({ ...hooks, ...bearer(token) });
        expect(line).toMatchObject({ refused: 'malformed' });
      }
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

  test('a flood of refused strangers writes some lines, and counts the others', async () => {
    const before = lines.length;
    const since = () => lines.slice(before).map((line): Line => JSON.parse(line));
    const isCount = ({ msg }: Line) => /were refused$/.test(String(msg));
    const send = restClient(bench);
    let sent = 0;
    // On a slow machine a round may take more than a second, and every request has its line.
    await until(async () => {
      const round = Array.from({ length: 200 }, () =>
        send({ path: '/api/v1/webhooks', key: 'wrong' }),
      );
      sent += (await Promise.all(round)).length;
      return since().some(isCount);
    });
    const counted = () =>
      since().reduce(
        (sum, line) => sum + (isCount(line) ? Number(line.count) : line.msg === 'request' ? 1 : 0),
        0,
      );
    await until(() => counted() >= sent);
    expect(counted()).toBe(sent);
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
});

describe('paths', () => {
  let stack: SignInStack;

  beforeAll(async () => {
    stack = await startSignInStack({ replicas: 1, FAILED_CREDENTIALS_PER_MINUTE: 1_000_000 });
  });
  afterAll(() => stack.stop());

  /** Sends a request whose path is not encoded, and returns the status. */
  async function statusOf(method: string, path: string, key: string): Promise<number> {
    const { port, hostname } = new URL(stack.baseUrl);
    const socket = connect(Number(port), hostname);
    const fields = ['host: x', `x-authorization: ${key}`, 'connection: close'];
    socket.write(`${method} ${path} HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`, 'latin1');
    const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(await text(socket)) ?? [];
    return Number(status);
  }

  /** Names of properties that every object inherits. */
  const INHERITED = [
    ...Object.getOwnPropertyNames(Object.prototype),
    ...['prototype', 'length', 'name', 'then', 'get', 'size'],
  ];
  const SERVED = [
    ...['api', 'v1', '2026-07', '2026-10', 'unstable', 'docs', 'assets', 'openapi', 'changelog'],
    ...[
      'start.js',
      'reference',
      'receivers',
      'quickstart',
      'oauth2-redirect',
      'swagger-ui.css',
      'oauth',
      'authorize',
      'token',
      'callback',
      'register',
      'jwks',
    ],
    ...['sign-in', 'shop', 'consent', 'allow', 'cancel', '.well-known', 'oauth-protected-resource'],
    ...['oauth-authorization-server', 'openid-configuration', 'mcp', 'icon.svg', 'livez'],
    ...OPERATIONS.flatMap(({ path }) => path.split('/').slice(1)),
  ];
  const ODD = [
    '',
    '.',
    '..',
    '%',
    '%2',
    '%zz',
    '%ff',
    '%00',
    '%2e%2e',
    '%2F',
    '%5C',
    '\\',
    '*',
    ':',
  ];

  const part = fc.oneof(
    fc.constantFrom(...INHERITED),
    fc.constantFrom(...SERVED),
    fc.constantFrom(...ODD),
    fc
      .string({ unit: 'binary', maxLength: 12 })
      .map((one) => encodeURIComponent(one.toWellFormed())),
    fc.string({ maxLength: 12 }).map((one) => one.replace(/[^\x21-\x7e]/g, '')),
    // Raw bytes above ASCII.
    fc.string({
      unit: fc.integer({ min: 0x80, max: 0xff }).map((byte) => String.fromCharCode(byte)),
    }),
    fc.constant('x'.repeat(6_000)),
  );
  const escaped = (one: string): string =>
    [...one].map((char) => `%${char.charCodeAt(0).toString(16).padStart(2, '0')}`).join('');
  const segment = fc.oneof(
    { weight: 6, arbitrary: part },
    { weight: 1, arbitrary: part.map((one) => `${one}.json`) },
    { weight: 1, arbitrary: fc.constantFrom(...INHERITED).map(escaped) },
  );
  const prefixes = fc.constantFrom(
    ...['/docs/assets', '/openapi', '/docs', '/api', '/api/v1', '/oauth', '/oauth/authorize'],
    ...['/oauth/sign-in', '/.well-known', '/mcp', '', '', ''],
  );
  const path = fc
    .tuple(prefixes, fc.array(segment, { maxLength: 5 }), fc.option(part, { freq: 4 }))
    .map(
      ([prefix, parts, query]) =>
        `${prefix}/${parts.join('/')}${query === null ? '' : `?${query}`}`,
    )
    // With longer paths the headers are too large: status 431, and the connection is closed.
    .map((one) => one.slice(0, 14_000));
  const method = fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'POST', 'OPTIONS', 'DELETE');

  const isNoServerError = (status: number): boolean => status >= 200 && status < 500;

  describe('a path', () => {
    test.each(INHERITED)('/docs/assets/%s does not exist', async (name) => {
      const { key } = stack.under;
      expect(await statusOf('GET', `/docs/assets/${name}`, key)).toBe(404);
      expect(await statusOf('GET', `/openapi/${name}.json`, key)).toBe(404);
    });

    test('never causes a 500, with 10,000 random paths', async () => {
      const { key } = stack.under;
      const requests = fc.array(fc.tuple(method, path), { minLength: 40, maxLength: 40 });
      await fc.assert(
        fc.asyncProperty(requests, async (all) => {
          const statuses = await Promise.all(
            all.map(([method, path]) => statusOf(method, path, key)),
          );
          expect(all.filter((_, at) => !isNoServerError(statuses[at] ?? 0))).toEqual([]);
        }),
        { numRuns: 250 },
      );
    });
  });

  test('a client that disconnects before the end of an asset leaves no file open', async () => {
    const { port, hostname } = new URL(stack.baseUrl);
    const filesOpen = async (): Promise<number> => (await readdir('/proc/self/fd')).length;
    const leave = (): Promise<void> =>
      new Promise((resolve) => {
        const socket = connect(Number(port), hostname);
        socket.write('GET /docs/assets/swagger-ui-bundle.js HTTP/1.1\r\nhost: x\r\n\r\n');
        socket.once('data', () => socket.destroy()).once('close', () => resolve());
      });
    await leave();
    const before = await filesOpen();
    for (let nth = 0; nth < 50; nth += 1) await leave();
    expect(await filesOpen()).toBeLessThan(before + 25);
  });
});

test.each([
  ['GET', 1],
  ['HEAD', 0],
])('a large asset arrives unchanged: %s', async (method, copies) => {
  const plain = Buffer.from(Array.from({ length: 300_000 }, (_, nth) => `${nth},`).join(''));
  const none = Buffer.alloc(0);
  const asset: Asset = { type: 'text/plain', etag: 'W/"1"', plain, br: none, gzip: none };
  const app = express().get('/', (req, res) => sendAsset(req, res, asset));
  const { port, stop } = await startHttpServer(app, {
    host: '127.0.0.1',
    port: 0,
    limits: { idleAtStopMs: 0 },
  });
  const [res]: IncomingMessage[] = await once(request({ port, method }).end(), 'response');
  expect(res?.headers['content-length']).toBe(String(plain.length));
  const received = res ? await buffer(res) : Buffer.alloc(0);
  expect(received.equals(plain.subarray(0, copies * plain.length))).toBe(true);
  await stop();
});
