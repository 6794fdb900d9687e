import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import express from 'express';
import type pg from 'pg';
import { loadConfig } from '../../services/platform/config.ts';
import { createPool } from '../../services/platform/postgres.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { createClientIp } from './client-ip.ts';
import {
  createHourlyLimits,
  type HourlyLimits,
  type HourlySizes,
  hourlyShape,
} from './hourly-limits.ts';

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

let database: TestDatabase;
let replicas: readonly [Replica, Replica];

beforeAll(async () => {
  database = await createTestDatabase('gateway');
  replicas = [await startReplica(database.pool), await startReplica(database.pool)];
});
afterAll(async () => {
  for (const replica of replicas) await replica.stop();
  await database.drop();
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
  ])('of %s admits exactly %d of 250 concurrent requests to two replicas', async (path, limit) => {
    const all = await statuses(250, path, '203.0.113.1');
    expect(passed(all)).toBe(limit);
    expect(all.filter((status) => status === 429)).toHaveLength(250 - limit);
  });

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
