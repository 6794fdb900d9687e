import { once } from 'node:events';
import { ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import pg from 'pg';
import { createLogger } from '../../services/platform/telemetry/log.ts';
import { startTelemetry } from '../../services/platform/telemetry/telemetry.ts';
import { overloaded } from '../../services/platform/values/errors.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { restClient } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';
import { HttpError } from '../errors.ts';
import { createBodyBudget } from './body-budget.ts';
import { createInFlight, type InFlight, type Slot } from './in-flight.ts';

describe('the share of a shop', () => {
  const logger = createLogger({ service: 'test', level: 'silent' });
  const enter = async (slots: InFlight, shop: bigint) => {
    const slot = await slots.enter('listWebhooks', undefined);
    try {
      slot.ofShop(shop);
    } catch (error) {
      slot.release();
      throw error;
    }
    return slot;
  };

  test('is three quarters of the slots while others call, and all without them', async () => {
    const clock = { ms: 0 };
    const telemetry = await startTelemetry({ service: 'test', metricsPort: 0 });
    const slots = createInFlight({ size: 8, logger, telemetry, now: () => clock.ms });
    const used: Slot[] = [];
    for (let nth = 0; nth < 7; nth += 1) used.push(await enter(slots, 1n));
    // A seventh was possible, because nobody else called. From the first call of another shop on, it is not.
    (await enter(slots, 2n)).release();
    clock.ms += 1_001;
    (await enter(slots, 2n)).release();
    await expect(enter(slots, 1n)).rejects.toBeInstanceOf(HttpError);
    for (const slot of used.splice(0, 2)) slot.release();
    used.push(await enter(slots, 1n));
    await expect(enter(slots, 1n)).rejects.toBeInstanceOf(HttpError);
    await telemetry.stop();
  });
});

describe('in-flight requests', () => {
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

const MIB = 1024 * 1024;
const sizes = { process: 64 * MIB, shop: 40 * MIB, caller: 32 * MIB };

function statusOf(work: () => void): number {
  try {
    work();
    return 200;
  } catch (error) {
    if (error instanceof HttpError) return error.error.status;
    throw error;
  }
}

describe('the budget of bodies', () => {
  test('a caller may send the largest body, and no byte more', () => {
    const budget = createBodyBudget(sizes, { of: 'bodies' });
    const [one, two] = [budget.open({ caller: 'a' }), budget.open({ caller: 'a' })];
    expect(statusOf(() => one.growTo(32 * MIB))).toBe(200);
    expect(statusOf(() => two.growTo(1))).toBe(429);
    one.release();
    expect(statusOf(() => two.growTo(1))).toBe(200);
  });

  test('a rejected request gets Retry-After', () => {
    const budget = createBodyBudget(sizes, { of: 'bodies' });
    const growTo = (caller: string) => budget.open({ caller }).growTo(32 * MIB);
    growTo('a');
    for (const caller of ['a', 'b']) {
      expect(() => growTo(caller)).toThrow(
        expect.objectContaining({ headers: { 'Retry-After': expect.stringMatching(/^[1-9]/) } }),
      );
    }
  });

  test('large bodies leave a quarter to callers with small bodies', () => {
    const budget = createBodyBudget(sizes, { of: 'bodies' });
    budget.open({ caller: 'a' }).growTo(32 * MIB);
    budget.open({ caller: 'b' }).growTo(16 * MIB);
    expect(statusOf(() => budget.open({ caller: 'c' }).growTo(2 * MIB))).toBe(503);
    for (let caller = 0; caller < 16; caller += 1) {
      expect(statusOf(() => budget.open({ caller: `small ${caller}` }).growTo(MIB))).toBe(200);
    }
    expect(statusOf(() => budget.open({ caller: 'late' }).growTo(1))).toBe(503);
  });

  test('the callers of one shop together cannot exceed the budget of the shop; other shops are not affected', () => {
    const budget = createBodyBudget(sizes, { of: 'bodies' });
    const open = (caller: string, shop: string) => budget.open({ caller, shop });
    expect(statusOf(() => open('a', '1').growTo(32 * MIB))).toBe(200);
    const second = open('b', '1');
    expect(statusOf(() => second.growTo(8 * MIB))).toBe(200);
    expect(statusOf(() => second.growTo(8 * MIB + 1))).toBe(429);
    expect(statusOf(() => open('c', '1').growTo(1))).toBe(429);
    expect(statusOf(() => open('d', '2').growTo(8 * MIB))).toBe(200);
    second.release();
    expect(statusOf(() => open('c', '1').growTo(1))).toBe(200);
  });

  test('bytes that the client has read are released immediately', () => {
    const budget = createBodyBudget(sizes, { of: 'answers' });
    const reserved = budget.open({ caller: 'a' });
    reserved.growTo(32 * MIB);
    reserved.shrinkTo(12 * MIB);
    expect(budget.reservedBytes()).toBe(12 * MIB);
    expect(statusOf(() => budget.open({ caller: 'a' }).growTo(20 * MIB))).toBe(200);
    reserved.release();
    expect(budget.reservedBytes()).toBe(20 * MIB);
  });

  test('when the budget is used up, slowly read responses are aborted, the slowest first', () => {
    const clock = { ms: 0 };
    const budget = createBodyBudget(sizes, { of: 'answers', now: () => clock.ms });
    const aborted: string[] = [];
    const open = (caller: string, bytes: number) => {
      const reserved = budget.open({ caller, abort: () => aborted.push(caller) });
      reserved.growTo(bytes);
      return reserved;
    };
    const [slow, fast] = [open('slow', 20 * MIB), open('fast', 12 * MIB)];
    open('silent', 16 * MIB);
    clock.ms += 4_999;
    expect(statusOf(() => open('late', 16 * MIB))).toBe(503);
    clock.ms += 1;
    slow.shrinkTo(18 * MIB);
    fast.shrinkTo(5 * MIB);
    open('late', 20 * MIB);
    expect(aborted).toEqual(['silent']);
    open('latest', 20 * MIB);
    expect(aborted).toEqual(['silent', 'slow']);
    // Neither a response that is read fast nor one that has just begun is aborted.
    expect(statusOf(() => open('last', 20 * MIB))).toBe(503);
    expect(budget.reservedBytes()).toBe(45 * MIB);
  });

  test('counts nothing for a request whose client has disconnected already', () => {
    const budget = createBodyBudget(sizes, { of: 'bodies' });
    const res = Object.assign(Object.create(ServerResponse.prototype), { _closed: true });
    const reserved = budget.open({ caller: 'a', res });
    reserved.growTo(MIB);
    expect(budget.reservedBytes()).toBe(0);
  });

  test('counts correctly after any sequence of changes', () => {
    const step = fc.record({
      caller: fc.constantFrom('a', 'b', 'c'),
      shop: fc.constantFrom('1', '2'),
      total: fc.integer({ min: 0, max: 40 * MIB }),
      isReleased: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const budget = createBodyBudget(sizes, { of: 'bodies' });
        let expected = 0;
        const open = steps.map(({ caller, shop, total, isReleased }) => {
          const reserved = budget.open({ caller, shop });
          if (statusOf(() => reserved.growTo(total)) === 200 && !isReleased) expected += total;
          if (isReleased) reserved.release();
          return reserved;
        });
        expect(budget.reservedBytes()).toBe(expected);
        expect(expected).toBeLessThanOrEqual(sizes.process);
        for (const reserved of open) reserved.release();
        expect(budget.reservedBytes()).toBe(0);
      }),
    );
  });
});
