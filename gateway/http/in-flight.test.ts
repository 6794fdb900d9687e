import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { overloaded } from '../../services/platform/errors.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { restClient } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';

/** The number of slots of an operation, and the maximum of a burst. */
const SIZE = 8;
const BURST = 4 * SIZE;
const READ = `/api/v1/warehouse/return/details?return_id=${FAKE.returns.open}`;

function dial(port: number, head: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(head, () => resolve(socket)));
    socket.on('error', reject);
  });
}

let under: TestGateway;
afterEach(() => under.stop());

/** Starts a gateway whose reads of returns do not finish before `release`. */
async function startBlocked() {
  under = await startTestGateway({ MAX_REQUESTS_IN_FLIGHT: SIZE });
  const blocked = Promise.withResolvers<void>();
  const state = { begun: 0 };
  const { findReturn } = under.services.returns;
  if (!findReturn) throw new Error('no fake');
  Object.assign(under.services.returns, {
    findReturn: async (...call: Parameters<typeof findReturn>) => {
      state.begun += 1;
      await blocked.promise;
      return findReturn(...call);
    },
    findReturns: () => ({ found: [] }),
  });
  return { send: restClient(under), state, release: blocked.resolve };
}

/**
 * Sends reads until all slots are in use. All are accepted if they arrive within a burst. If the machine was slower, the
 * last ones are shed.
 */
async function fillSlots({ send, state }: Awaited<ReturnType<typeof startBlocked>>) {
  let shed = 0;
  const sent = Array.from({ length: BURST }, async () => {
    const { status } = await send({ path: READ });
    if (status === 503) shed += 1;
    return status;
  });
  await until(() => state.begun + shed === BURST);
  expect(state.begun).toBeGreaterThanOrEqual(SIZE);
  return { accepted: state.begun, shed, statuses: () => Promise.all(sent) };
}

describe('in-flight requests', () => {
  test('beyond the slots get 503 with Retry-After immediately', async () => {
    const blocked = await startBlocked();
    const { send, state, release } = blocked;
    const { accepted, shed, statuses } = await fillSlots(blocked);

    // A request without a credential is shed too, because slots are checked first; so is an unusual spelling of the path.
    const rejected = await Promise.all([
      ...Array.from({ length: 20 }, () => send({ path: READ })),
      send({ path: READ, key: null }),
      send({ path: READ.replace('/v1', '') }),
      send({ path: READ.replace('v1', '%76%31') }),
    ]);
    for (const { status, headers, body } of rejected) {
      expect(status).toBe(503);
      expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(1);
      expect(headers['x-request-id']).toEqual(expect.any(String));
      expect(body).toEqual({ message: expect.any(String), errors: {} });
    }
    expect(state.begun).toBe(accepted);
    // Other operations, probes and the sign-in are not affected.
    expect((await send({ path: '/api/v1/webhooks' })).status).toBe(200);
    expect((await send({ path: '/readyz' })).status).toBe(200);
    const metadata = '/.well-known/oauth-protected-resource';
    expect((await send({ path: metadata })).status).toBe(200);

    release();
    expect((await statuses()).filter((status) => status === 200)).toHaveLength(accepted);
    expect((await send({ path: READ })).status).toBe(200);
    const metrics = await (await fetch(under.gateway.metricsUrl)).text();
    const metric = /http_server_shed_total\{.*operation="getReturnDetails".*\} (\d+)/;
    expect(Number(metric.exec(metrics)?.[1])).toBe(rejected.length + shed);
  });

  test('the response to a shed request has the form of the requested version', async () => {
    const blocked = await startBlocked();
    const { send, release } = blocked;
    const { statuses } = await fillSlots(blocked);
    const path = READ.replace('v1', 'unstable');
    const responses = await Promise.all(
      Array.from({ length: SIZE }, () => send({ path, headers: { 'x-request-id': 'own-id' } })),
    );
    for (const { status, headers, body } of responses) {
      expect([status, headers['content-type']]).toEqual([503, 'application/problem+json']);
      expect(headers['x-service-api-version']).toBe('unstable');
      expect(headers['x-service-api-warning']).toEqual(expect.any(String));
      expect(headers['cache-control']).toBe('no-store');
      expect(headers['x-content-type-options']).toBe('nosniff');
      expect(headers['x-request-id']).toBe('own-id');
      expect(body).toMatchObject({ status: 503, title: 'Service Unavailable' });
    }
    release();
    await statuses();
  });

  test('a client that sends its body slowly occupies no slot', async () => {
    const { send, release } = await startBlocked();
    release();
    const { port } = under.gateway;
    const head = [
      'POST /api/v1/cart HTTP/1.1',
      'Host: x',
      `X-Authorization: ${under.key}`,
      'Content-Type: application/json',
      'Content-Length: 100',
      '',
      '{',
    ].join('\r\n');
    const slow = await Promise.all(Array.from({ length: SIZE }, () => dial(port, head)));
    const sent = { path: '/api/v1/cart', json: { cart: [1] } };
    await until(async () => (await send(sent)).status === 200);
    for (const socket of slow) socket.destroy();
  });

  test('clients without a credential that send their bodies slowly do not block /mcp', async () => {
    under = await startTestGateway({ MAX_REQUESTS_IN_FLIGHT: SIZE });
    const head = ['POST /mcp HTTP/1.1', 'Host: x', 'Content-Length: 100000', '', '{'].join('\r\n');
    const slow = await Promise.all(
      Array.from({ length: SIZE / 2 }, () => dial(under.gateway.port, head)),
    );
    const responses = await Promise.all(slow.map((socket) => once(socket, 'data')));
    for (const [text] of responses) expect(String(text)).toMatch(/^HTTP\/1.1 40[13]/);
    const { status } = await restClient(under)({ path: '/mcp', method: 'POST', key: null });
    expect(status).not.toBe(503);
    for (const socket of slow) socket.destroy();
  });

  test('an overloaded service causes 503 with Retry-After, and is called once', async () => {
    under = await startTestGateway();
    let calls = 0;
    Object.assign(under.services.returns, {
      findReturn: () => {
        calls += 1;
        throw overloaded();
      },
    });
    const { status, headers } = await restClient(under)({ path: READ });
    expect(status).toBe(503);
    expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(1);
    expect(calls).toBe(1);
  });

  test.each(['/mcp', '/oauth/authorize'])('%s has slots as well', async (path) => {
    under = await startTestGateway({ MAX_REQUESTS_IN_FLIGHT: 8 });
    const lock = new pg.Client(under.database.migratorUrl);
    await lock.connect();
    await lock.query('begin');
    await lock.query('lock table gateway.rate_limits in access exclusive mode');
    const send = restClient(under);
    const sent = {
      path,
      method: 'GET',
      key: null,
      headers: { authorization: 'Bearer e30.e30.e30' },
    };
    const responses = Array.from({ length: 40 }, () => send(sent));
    const rejected = await until(async () => {
      const first = await Promise.race(responses);
      return first.status === 503 && first;
    });
    expect(Number(rejected.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    await lock.end();
    await Promise.all(responses);
  });
});
