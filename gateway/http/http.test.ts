import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import type { EventBus } from '../../services/platform/bus/event-bus.ts';
import { createInProcessBus } from '../../services/platform/bus/in-process.ts';
import { createPool } from '../../services/platform/postgres/postgres.ts';
import { createLogger } from '../../services/platform/telemetry/log.ts';
import { startTelemetry, type Telemetry } from '../../services/platform/telemetry/telemetry.ts';
import { createEmptyDatabase, createTestDatabase } from '../../test/kit/database.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { silentLogger, testTelemetry } from '../../test/kit/services/telemetry.ts';
import { until } from '../../test/kit/until.ts';
import { createInFlight } from './in-flight.ts';
import { createReadiness } from './probes.ts';

describe('the HTTP server', () => {
  let under: TestGateway;
  let send: (sent: Sent) => Promise<Received>;

  beforeAll(async () => {
    under = await startTestGateway();
    send = restClient(under);
  });
  afterAll(() => under.stop());

  async function asMigrator(sql: string): Promise<void> {
    const client = new pg.Client({ connectionString: under.database.migratorUrl });
    await client.connect();
    await client.query(sql);
    await client.end();
  }

  describe('X-Request-Id', () => {
    const idOf = async (id?: string): Promise<unknown> => {
      const headers = id === undefined ? {} : { 'x-request-id': id };
      return (await send({ path: '/livez', headers })).headers['x-request-id'];
    };
    test('is new on every response', async () => {
      const paths = ['/livez', '/nothing', '/api/v1/webhooks', '/api/2000-01/x', '/docs', '/%'];
      const responses = await Promise.all(paths.map((path) => send({ path })));
      const ids = new Set(responses.map(({ headers }) => headers['x-request-id']));
      expect(ids.size).toBe(paths.length);
    });
    test("is the caller's own id when that id is safe", async () => {
      expect(await idOf('trace.7_a-B')).toBe('trace.7_a-B');
      for (const bad of ['a b', 'x'.repeat(129), '<script>']) expect(await idOf(bad)).not.toBe(bad);
    });
  });

  describe('probes', () => {
    test('livez and readyz', async () => {
      expect(await send({ path: '/livez' })).toMatchObject({ status: 200, body: { status: 'ok' } });
      // A probe fails when the database pauses for a moment.
      const ready = await until(async () => {
        const response = await send({ path: '/readyz' });
        return response.status === 200 && response;
      });
      expect(ready.body).toEqual({ status: 'ok', parts: { database: 'ok', schema: 'fits' } });
    });

    test('with a schema newer than the code the gateway is not ready, and readyz shows the reason', async () => {
      await asMigrator(
        "insert into gateway.schema_migrations (name, sha256, fits) values ('9999_later.sql', '', '999.0.0')",
      );
      const fresh = await startTestGateway({ DATABASE_URL: under.database.url });
      const response = await until(async () => {
        const current = await restClient(fresh)({ path: '/readyz' });
        return JSON.stringify(current.body).includes('later') && current;
      });
      await asMigrator("delete from gateway.schema_migrations where name = '9999_later.sql'");
      await fresh.stop();
      expect(response).toMatchObject({
        status: 503,
        body: { status: 'unready', parts: { schema: expect.stringContaining('9999_later.sql') } },
      });
    });

    test('without its database the gateway is live and ready, and returns 503 for unknown keys', async () => {
      const other = await startTestGateway({ DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' });
      const sendOther = restClient(other);
      expect((await sendOther({ path: '/livez' })).status).toBe(200);
      const ready = await until(async () => {
        const current = await sendOther({ path: '/readyz' });
        return current.status === 200 && current;
      });
      expect(ready.body).toEqual({
        status: 'ok',
        parts: { database: 'does not answer', schema: 'unknown' },
      });
      const response = await sendOther({ path: '/api/v1/webhooks' });
      expect(response).toMatchObject({
        status: 503,
        body: { message: expect.any(String), errors: {} },
      });
      expect(response.headers['retry-after']).toMatch(/^[1-9]\d*$/);
      expect((await sendOther({ path: '/api/v1/webhooks', key: 'malformed' })).status).toBe(401);
      await other.stop();
    });
  });

  describe('documentation', () => {
    test.each(['2026-07', '2026-10', 'unstable'])('serves the document of %s', async (version) => {
      const response = await send({ path: `/openapi/${version}.json` });
      expect(response).toMatchObject({
        status: 200,
        body: { openapi: expect.stringMatching(/^3\.1/) },
      });
    });
    test('an unknown version has no document', async () => {
      expect((await send({ path: '/openapi/2000-01.json' })).status).toBe(404);
      expect((await send({ path: '/openapi/..%2F..%2Fpackage.json' })).status).toBe(404);
    });
    test('the reference needs no external resources', async () => {
      const page = await send({ path: '/docs/reference' });
      const assets = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(
        ([, path]) => path ?? '',
      );
      expect(assets.length).toBeGreaterThan(3);
      for (const path of assets) {
        expect(path).toMatch(/^\/docs(\/|$)/);
        expect([path, (await send({ path })).status]).toEqual([path, 200]);
      }
      expect(page.headers['content-security-policy']).toContain("script-src 'self'");
      const start = await send({ path: '/docs/reference/start.js' });
      for (const version of ['2026-07', '2026-10', 'unstable'])
        expect(start.text).toContain(version);
    });
  });

  describe('headers', () => {
    test('do not reveal the server software, and include the security headers', async () => {
      const { headers } = await send({ path: '/api/v1/webhooks' });
      expect(headers).not.toHaveProperty('x-powered-by');
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'content-security-policy':
          "default-src 'none';object-src 'none';base-uri 'none';form-action 'none';frame-ancestors 'none'",
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
        'origin-agent-cluster': '?1',
        'referrer-policy': 'no-referrer',
        'strict-transport-security': 'max-age=31536000; includeSubDomains',
        'x-dns-prefetch-control': 'off',
        'x-download-options': 'noopen',
        'x-frame-options': 'SAMEORIGIN',
        'x-permitted-cross-domain-policies': 'none',
        'x-xss-protection': '0',
      });
    });
  });

  /** Sends raw bytes, and returns everything that is received until the connection is closed. */
  async function raw(bytes: string): Promise<string> {
    const socket = connect(under.gateway.port, '127.0.0.1');
    socket.write(bytes);
    return text(socket);
  }

  test.each([
    'http://elsewhere/api/v1/webhooks',
    'http://elsewhere/api/v1/%77ebhooks',
    'http://elsewhere:8443/%61pi/%76%31/webhooks?x=/api',
  ])('the absolute target %s, as proxies send it, is served', async (target) => {
    const fields = ['host: x', `x-authorization: ${under.key}`, 'connection: close'];
    const response = await raw(`GET ${target} HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`);
    expect(response).toMatch(/^HTTP\/1\.1 200 /);
  });

  describe('hostile clients', () => {
    test.each([
      ['nonsense', 'nonsense\r\n\r\n', 400],
      ['headers without end', `GET / HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(40_000)}\r\n\r\n`, 431],
      [
        'two lengths',
        'POST /api/v1/cart HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx',
        400,
      ],
      ['a negative length', 'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n', 400],
      ['no host', 'GET /api/v1/webhooks HTTP/1.1\r\nconnection: close\r\n\r\n', 400],
      ['two hosts', 'GET /livez HTTP/1.1\r\nhost: x\r\nHOST: x\r\nconnection: close\r\n\r\n', 400],
      ['two hosts at /mcp', 'POST /mcp HTTP/1.0\r\nhost: 127.0.0.1\r\nHost: evil\r\n\r\n', 400],
      ['a tunnel', 'CONNECT x:443 HTTP/1.1\r\nhost: x\r\n\r\n', 400],
    ])('%s', async (_, bytes, status) => {
      const response = await raw(bytes);
      expect(response).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
      expect(response).toMatch(/x-request-id: .*"errors":\{\}\}$/is);
    });
    test.each([
      'GET /api/v1/webhooks?%ff=%ff&a[b]=c&a[b]=d HTTP/1.1',
      'GET http://elsewhere/api/v1/webhooks HTTP/1.1',
      'GET //api/v1/webhooks HTTP/1.1',
      'GET /api/v1/../../etc/passwd HTTP/1.1',
      'OPTIONS * HTTP/1.1',
      'PROPFIND /api/v1/webhooks HTTP/1.1',
      'TRACE /api/v1/cart HTTP/1.1',
      `GET /api/v1/warehouse/return/details?return_id=${'9'.repeat(8_000)} HTTP/1.1`,
      'GET /api/v1/warehouse/return/details?order_name=%00 HTTP/1.1',
    ])('%s does not cause a 500', async (line) => {
      const response = await raw(
        `${line}\r\nhost: x\r\nx-authorization: ${under.key}\r\nconnection: close\r\n\r\n`,
      );
      expect(response).toMatch(/^HTTP\/1\.1 [24]\d\d /);
      expect(response).toMatch(/x-request-id: /i);
    });
  });

  describe('metrics', () => {
    test('requests by method, route, status and version', async () => {
      await send({ path: '/api/2026-10/webhooks' });
      const metrics = await (await fetch(under.gateway.metricsUrl)).text();
      expect(metrics).toMatch(
        /http_server_request_duration_seconds_count\{http_request_method="GET",http_route="\/api\/\{version\}\/webhooks",http_response_status_code="200",api_version="2026-10"\}/,
      );
    });

    test('connections, and those that the gateway ended, by reason', async () => {
      const socket = connect(under.gateway.port, '127.0.0.1');
      socket.write('nonsense\r\n\r\n');
      await text(socket);
      const metrics = await (await fetch(under.gateway.metricsUrl)).text();
      expect(metrics).toMatch(/http_server_connections \d/);
      expect(metrics).toMatch(/http_server_connections_ended_total\{reason="not a request"\} \d/);
    });

    test('connections to the database, and the callers that wait for one', async () => {
      const metrics = await (await fetch(under.gateway.metricsUrl)).text();
      expect(metrics).toMatch(
        /^db_client_connection_pending_requests\{db_client_connection_pool_name="calls"\} \d/m,
      );
    });

    test('requests to a version past its support window, when there is no newer one', async () => {
      const late = await startTestGateway({ API_CALENDAR: new Date('2028-02-01T00:00:00Z') });
      await restClient(late)({ path: '/api/2026-10/webhooks' });
      const metrics = await (await fetch(late.gateway.metricsUrl)).text();
      await late.stop();
      expect(metrics).toMatch(/api_version_past_window_total\{(?=.*version="2026-10").*\} 1/);
    });
  });

  test("a caller's trace continues in the services", async () => {
    const trace = '0af7651916cd43dd8448eb211c80319c';
    let seen: string | null = null;
    let vendors: string | null = null;
    under.services.carts.createCart = (_request, context) => {
      seen = context.requestHeader.get('traceparent');
      vendors = context.requestHeader.get('tracestate');
      return { cart: { token: 'x', entries: [{ variantId: 1n }] } };
    };
    const headers = { traceparent: `00-${trace}-b7ad6b7169203331-01`, tracestate: 'dd=s:1,x=y' };
    await send({ path: '/api/v1/cart', json: { cart: [1] }, headers });
    under.resetServices();
    expect(seen).toContain(trace);
    expect(vendors).toBe('dd=s:1,x=y');
  });

  /** A request that is in flight until `release`. */
  async function hangingRequest(gateway: TestGateway) {
    const blocked = Promise.withResolvers<void>();
    const arrived = Promise.withResolvers<void>();
    gateway.services.carts.createCart = async () => {
      arrived.resolve();
      await blocked.promise;
      return { cart: { token: 'x', entries: [{ variantId: 1n }] } };
    };
    const response = restClient(gateway)({ path: '/api/v1/cart', json: { cart: [1] } });
    await arrived.promise;
    return { response, release: () => blocked.resolve() };
  }

  test('a stopping gateway completes in-flight requests', async () => {
    const other = await startTestGateway();
    const { response, release } = await hangingRequest(other);
    const stopped = other.gateway.stop();
    release();
    expect((await response).status).toBe(200);
    await stopped;
    await other.stop();
  });

  test('a stopping gateway stops its mails while a request is in flight', async () => {
    const mailsStop = Promise.withResolvers<void>();
    const inner = createInProcessBus();
    const bus: EventBus = {
      ...inner,
      async subscribe(o) {
        const subscription = await inner.subscribe(o);
        return {
          stop() {
            mailsStop.resolve();
            return subscription.stop();
          },
        };
      },
    };
    const mails = { SMTP_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'returns@example.com', bus };
    const other = await startTestGateway(mails);
    const { response, release } = await hangingRequest(other);
    const stopped = other.gateway.stop();
    await mailsStop.promise;
    release();
    expect((await response).status).toBe(200);
    await stopped;
    await other.stop();
  });
});

const SIZE = 8;

test('a burst may exceed the slots for a short time; after that, further requests are shed', async () => {
  const clock = { ms: 0 };
  const logger = createLogger({ service: 'test', level: 'fatal', pretty: false });
  const telemetry = await startTelemetry({ service: 'test', metricsPort: 0 });
  const inFlight = createInFlight({ size: SIZE, logger, telemetry, now: () => clock.ms });
  const enter = () => inFlight.enter('createCart', undefined);
  const slots = await Promise.all(Array.from({ length: SIZE + 2 }, enter));
  expect(inFlight.isAnyFull()).toBe(false);
  clock.ms += 1_001;
  expect([inFlight.isAnyFull(), inFlight.shedIfFull('createCart')]).toEqual([true, true]);
  await expect(enter()).rejects.toMatchObject({ error: { status: 503 } });
  // Other operations have their own slots. A slot is free when fewer requests than slots are in flight.
  expect(inFlight.shedIfFull('updateDestination')).toBe(false);
  for (const slot of slots.slice(0, 3)) slot.release();
  expect(inFlight.isAnyFull()).toBe(false);
  // Soon after a shed request there is no burst, because batches of responses free all slots for a moment.
  await enter();
  expect(inFlight.isAnyFull()).toBe(true);
  clock.ms += 1_001;
  for (const slot of slots.slice(3)) slot.release();
  await Promise.all(Array.from({ length: SIZE + 1 }, enter));
  expect(inFlight.isAnyFull()).toBe(false);
  await telemetry.stop();
});

describe('slots', () => {
  let telemetry: Telemetry;
  beforeAll(async () => {
    telemetry = await testTelemetry();
  });
  afterAll(() => telemetry.stop());

  test.each(['before', 'during'])(
    'a request that ends %s its wait for the client takes no slot after it',
    async (when) => {
      let nowMs = 0;
      const logger = silentLogger();
      const inFlight = createInFlight({ size: 1, logger, telemetry, now: () => nowMs });
      const slot = await inFlight.enter('signIn', undefined);
      const waiting = Promise.withResolvers<void>();
      if (when === 'before') slot.release();
      const waited = slot.during(() => waiting.promise);
      if (when === 'during') slot.release();
      waiting.resolve();
      await waited;
      // Longer than a burst may last.
      nowMs += 60_000;
      expect(inFlight.isAnyFull()).toBe(false);
    },
  );
});

test.each([
  ['fits is ready', () => createTestDatabase('gateway'), true],
  ['does not fit is not ready', createEmptyDatabase, false],
])(
  'a gateway whose schema %s, and it stays so when the database becomes unavailable',
  async (_, create, isReady) => {
    const database = await create();
    const pool = createPool(database.url);
    const readiness = createReadiness(pool, () => 'running');
    const before = await until(async () => {
      const current = await readiness();
      return current.parts.schema !== 'unknown' && current;
    });
    await pool.end();
    const after = await until(async () => {
      const current = await readiness();
      return current.parts.database !== 'ok' && current;
    });
    await database.drop();
    expect([before.ready, after.ready]).toEqual([isReady, isReady]);
  },
);

test.each(['connecting to the services', 'stopping'] as const)(
  'a gateway that is %s is not ready, and says so',
  async (phase) => {
    const pool = createPool('postgres://nobody@127.0.0.1:1/none');
    const readiness = await createReadiness(pool, () => phase)();
    await pool.end();
    expect(readiness).toEqual({ ready: false, parts: { gateway: phase } });
  },
);
