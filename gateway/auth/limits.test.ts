import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import express from 'express';
import type pg from 'pg';
import { createPool } from '../../services/platform/postgres/postgres.ts';
import { loadConfig } from '../../services/platform/process/config.ts';
import { createLogger } from '../../services/platform/telemetry/log.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { type SignInStack, startSignInStack } from '../../test/kit/oauth/sign-in-stack.ts';
import { createClientIp } from './client-ip.ts';
import {
  createHourlyLimits,
  type HourlyLimits,
  type HourlySizes,
  hourlyShape,
} from './hourly-limits.ts';
import { createLeasedLimit, type LeasedLimit } from './leased-limit.ts';
import { createRateLimit, rejectedFor } from './rate-limits.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase('gateway');
});
afterAll(() => database.drop());

describe('limits by minute and day', () => {
  const logger = createLogger({ service: 'test', level: 'silent' });
  /** Long enough that a pause of the machine does not make a replica count alone. Milliseconds. */
  const LONG_TIMEOUT = { timeoutMs: 30_000 };

  async function admitted(
    limits: readonly LeasedLimit[],
    key: string,
    limit: number,
    requests: number,
  ) {
    const admissions = await Promise.all(
      Array.from({ length: requests }, (_, at) => limits[at % limits.length]?.take(key, limit)),
    );
    return admissions.filter((admission) => admission?.admitted).length;
  }

  describe('the limit of REST callers', () => {
    test.each([1, 5, 7, 300])('one replica admits exactly %d', async (limit) => {
      const replica = createLeasedLimit(database.pool, logger, LONG_TIMEOUT);
      expect(await admitted([replica], `one-${limit}`, limit, limit * 2 + 10)).toBe(limit);
    });

    test('several replicas together admit exactly the limit of a busy key', async () => {
      const replicas = [1, 2, 3].map(() => createLeasedLimit(database.pool, logger, LONG_TIMEOUT));
      expect(await admitted(replicas, 'three', 100, 600)).toBe(100);
    });

    test('a request costs its points, but at most the points of a full window', async () => {
      const replica = createLeasedLimit(database.pool, logger, LONG_TIMEOUT);
      expect(await replica.take('points', 30, 20)).toEqual({ admitted: true });
      expect(await replica.take('points', 30, 10)).toEqual({ admitted: true });
      expect(await replica.take('points', 30)).toMatchObject({ admitted: false });
      expect(await replica.take('large', 5, 500)).toEqual({ admitted: true });
      expect(await replica.take('large', 5)).toMatchObject({ admitted: false });
    });

    test('a request that costs more than the rest of a window uses up the rest', async () => {
      const replica = createLeasedLimit(database.pool, logger, LONG_TIMEOUT);
      expect(await replica.take('rest', 30, 20)).toEqual({ admitted: true });
      expect(await replica.take('rest', 30, 11)).toMatchObject({ admitted: false });
      expect(await replica.take('rest', 30)).toMatchObject({ admitted: false });
    });

    test('points are counted over all replicas', async () => {
      const replicas = [1, 2, 3].map(() => createLeasedLimit(database.pool, logger, LONG_TIMEOUT));
      const admissions = await Promise.all(
        Array.from({ length: 60 }, (_, at) => replicas[at % 3]?.take('points of three', 100, 5)),
      );
      expect(admissions.filter((admission) => admission?.admitted).length).toBeLessThanOrEqual(20);
    });

    test('a rejected request gets the time until the end of the window', async () => {
      const replica = createLeasedLimit(database.pool, logger, LONG_TIMEOUT);
      await replica.take('again', 1);
      const rejected = await replica.take('again', 1);
      expect(rejected).toEqual({ admitted: false, retryAfterS: expect.any(Number) });
      expect(!rejected.admitted && rejected.retryAfterS).toBeGreaterThanOrEqual(1);
      expect(!rejected.admitted && rejected.retryAfterS).toBeLessThanOrEqual(60);
    });

    test.each([
      [60_000, 60],
      [1_001, 2],
      [1, 1],
      [0, 1],
      [-5, 1],
    ])('with %d ms left, Retry-After is %d whole seconds, at least 1', (ms, retryAfterS) => {
      expect(rejectedFor(ms)).toEqual({ admitted: false, retryAfterS });
    });

    test('keys do not share a window', async () => {
      const replica = createLeasedLimit(database.pool, logger, LONG_TIMEOUT);
      await replica.take('a', 1);
      expect(await replica.take('b', 1)).toEqual({ admitted: true });
    });

    test('without a database a replica counts alone', async () => {
      const unreachable = createPool('postgres://nobody@127.0.0.1:1/none');
      const replica = createLeasedLimit(unreachable, logger);
      expect(await admitted([replica], 'alone', 20, 50)).toBe(20);
      await unreachable.end();
    });

    test('without a database a replica admits the limit once in a window of a day, and counts it later', async () => {
      const state = { isAvailable: false };
      const unreachable = createPool('postgres://nobody@127.0.0.1:1/none');
      const pool = new Proxy(database.pool, {
        get(available, name) {
          const source = state.isAvailable ? available : unreachable;
          const member: unknown = Reflect.get(source, name);
          return typeof member === 'function' ? member.bind(source) : member;
        },
      });
      const options = { ...LONG_TIMEOUT, name: 'day', windowS: 86_400 };
      const replica = createLeasedLimit(pool, logger, options);
      const now = jest.spyOn(Date, 'now');
      const start = Date.now();
      const moveTo = (minutes: number) => now.mockReturnValue(start + minutes * 60_000);
      try {
        moveTo(0);
        expect(await replica.take('day', 20, 15)).toEqual({ admitted: true });
        // Two minutes later the window of a day still counts: only 5 points are left.
        moveTo(2);
        expect(await replica.take('day', 20, 5)).toEqual({ admitted: true });
        expect(await replica.take('day', 20)).toEqual({ admitted: false, retryAfterS: 60 });
        state.isAvailable = true;
        expect(await replica.take('day', 20)).toMatchObject({ admitted: false });
        moveTo(4);
        expect(await replica.take('day', 20)).toMatchObject({ admitted: false });
        const other = createLeasedLimit(database.pool, logger, options);
        expect(await other.take('day', 20)).toMatchObject({ admitted: false });
        // The next window is a new one.
        moveTo(2 * 24 * 60);
        expect(await replica.take('day', 20)).toEqual({ admitted: true });
      } finally {
        now.mockRestore();
        await unreachable.end();
      }
    });
  });

  describe('an exact limit', () => {
    test('is counted over all replicas', async () => {
      const options = { pool: database.pool, name: 'counted', points: 10, windowS: 60 };
      const replicas = [createRateLimit(options), createRateLimit(options)];
      const admissions = await Promise.all(
        Array.from({ length: 40 }, (_, at) => replicas[at % 2]?.take('1.2.3.4')),
      );
      expect(admissions.filter((admission) => admission?.admitted)).toHaveLength(10);
    });

    test('counts alone without a database', async () => {
      const unreachable = createPool('postgres://nobody@127.0.0.1:1/none');
      const limit = createRateLimit({ pool: unreachable, name: 'alone', points: 2, windowS: 60 });
      const admissions = [await limit.take('x'), await limit.take('x'), await limit.take('x')];
      expect(admissions.map(({ admitted }) => admitted)).toEqual([true, true, false]);
      await unreachable.end();
    });
  });
});

describe('hourly limits', () => {
  const PATHS = [
    'wellKnown',
    'register',
    'authorize',
    'token',
    'callback',
    'resume',
    'signInPages',
    'jwks',
  ] as const;

  interface Replica {
    readonly url: string;
    readonly limits: HourlyLimits;
    stop(): Promise<void>;
  }

  /** A server with one route behind each limit. */
  async function startReplica(pool: pg.Pool, sizes?: Partial<HourlySizes>): Promise<Replica> {
    const clientIp = createClientIp(['127.0.0.1']);
    const defaults = loadConfig(hourlyShape, {});
    const limits = createHourlyLimits({ pool, clientIp, sizes: { ...defaults, ...sizes } });
    const app = express();
    for (const path of PATHS) {
      app.all(`/${path}`, limits[path], (_req, res) => {
        res.json('passed');
      });
    }
    const server: Server = app.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      limits,
      async stop() {
        const closed = once(server, 'close');
        server.close();
        server.closeAllConnections();
        await closed;
      },
    };
  }
  let replicas: readonly [Replica, Replica];

  beforeAll(async () => {
    replicas = [await startReplica(database.pool), await startReplica(database.pool)];
  });
  afterAll(async () => {
    for (const replica of replicas) await replica.stop();
  });
  beforeEach(async () => {
    await database.pool.query('delete from rate_limits');
    for (const { limits } of replicas) limits.reset();
  });

  const from = (address: string, method = 'GET') => ({
    method,
    headers: { 'x-forwarded-for': address },
  });

  /** Sends `count` concurrent requests alternately to both replicas, and returns the statuses. */
  async function statuses(count: number, path: string, address: string): Promise<number[]> {
    const responses = await Promise.all(
      Array.from({ length: count }, async (_, at) => {
        const replica = replicas[at % 2 === 0 ? 0 : 1];
        const response = await fetch(`${replica.url}/${path}`, from(address));
        await response.arrayBuffer();
        return response.status;
      }),
    );
    return responses;
  }

  const passed = (all: readonly number[]) => all.filter((status) => status === 200).length;

  describe('a limit of sign-in', () => {
    test.each([
      ['wellKnown', 100],
      ['register', 50],
      ['authorize', 100],
      ['token', 100],
      ['callback', 200],
    ])(
      'of %s admits exactly %d of 250 concurrent requests to two replicas',
      async (path, limit) => {
        const all = await statuses(250, path, '203.0.113.1');
        expect(passed(all)).toBe(limit);
        expect(all.filter((status) => status === 429)).toHaveLength(250 - limit);
      },
    );

    test('is per address, and each address has its own row', async () => {
      await statuses(51, 'register', '203.0.113.2');
      expect(await statuses(1, 'register', '203.0.113.2')).toEqual([429]);
      expect(await statuses(1, 'register', '203.0.113.3')).toEqual([200]);
      expect(await statuses(1, 'token', '203.0.113.2')).toEqual([200]);
    });

    test('responds with Retry-After in whole seconds, and a body with the fields of OAuth and of this API', async () => {
      await statuses(51, 'register', '203.0.113.4');
      const response = await fetch(`${replicas[0].url}/register`, from('203.0.113.4', 'POST'));
      const body: unknown = await response.json();
      const retryAfter = response.headers.get('retry-after') ?? '';
      expect(retryAfter).toMatch(/^[1-9]\d*$/);
      expect(Number(retryAfter)).toBeLessThanOrEqual(3_600);
      expect(response.headers.get('cache-control')).toBe('no-store');
      const message = expect.stringContaining(`Try again in ${retryAfter} s.`);
      expect(body).toEqual({
        error: 'temporarily_unavailable',
        error_description: message,
        message,
        errors: {},
      });
    });

    test('does not count preflights', async () => {
      const { url } = replicas[0];
      for (let at = 0; at < 60; at += 1) {
        await fetch(`${url}/register`, from('203.0.113.5', 'OPTIONS'));
      }
      expect(await statuses(1, 'register', '203.0.113.5')).toEqual([200]);
    });

    test('has the configured size', async () => {
      const small = await startReplica(database.pool, { TOKEN_PER_HOUR: 2 });
      const all = [];
      for (let at = 0; at < 3; at += 1) {
        all.push((await fetch(`${small.url}/token`, from('203.0.113.6'))).status);
      }
      expect(all).toEqual([200, 200, 429]);
      await small.stop();
    });

    test.each(PATHS)('%s returns 503 while the database is unavailable', async (path) => {
      const unreachable = createPool('postgres://nobody@127.0.0.1:1/none');
      const replica = await startReplica(unreachable);
      const response = await fetch(`${replica.url}/${path}`, from('203.0.113.7'));
      expect(response.status).toBe(503);
      expect(response.headers.get('retry-after')).toBe('5');
      expect(await response.json()).toMatchObject({ error: 'temporarily_unavailable', errors: {} });
      await replica.stop();
      await unreachable.end();
    });
  });

  describe('the limit of tool calls', () => {
    test('is 600 per hour and user over two replicas', async () => {
      const responses = await Promise.all(
        Array.from({ length: 650 }, (_, at) =>
          replicas[at % 2 === 0 ? 0 : 1].limits.mcpCalls.take('7'),
        ),
      );
      expect(responses.filter(({ admitted }) => admitted)).toHaveLength(600);
      expect(await replicas[0].limits.mcpCalls.take('8')).toEqual({ admitted: true });
    });
  });
});

describe('two gateways over one database', () => {
  /** Tool calls per hour in this test, the same number as the other limits. */
  const MCP_CALLS = 100;

  let stack: SignInStack;
  beforeAll(async () => {
    stack = await startSignInStack({
      ...loadConfig(hourlyShape, {}),
      MCP_CALLS_PER_HOUR: MCP_CALLS,
    });
  });
  afterAll(() => stack?.stop());

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

  test.each<[string, number, Omit<Sent, 'address' | 'path'>]>([
    ['/.well-known/oauth-protected-resource', 100, {}],
    ['/.well-known/oauth-authorization-server', 100, {}],
    ['/oauth/register', 50, { method: 'POST', headers: json, body: '{}' }],
    ['/oauth/authorize?client_id=nobody', 100, {}],
    ['/oauth/token', 100, { method: 'POST', headers: form, body: 'grant_type=x' }],
  ])('admit at %s exactly %d', async (path, limit, sent) => {
    const address = `203.0.113.${path.length}`;
    expect(await admitted({ path, ...sent, address })).toBe(limit);
  });

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
  });

  test('do not count the resume path against the limit of /oauth/authorize', async () => {
    expect(await admitted({ path: '/oauth/authorize/nobody', address: '203.0.113.202' })).toBe(250);
  });

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
  });
});
