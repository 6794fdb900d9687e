import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  jest,
  test,
} from '@jest/globals';
import fc from 'fast-check';
import { isOutage } from '../../services/platform/postgres/outage.ts';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';
import { listApiKeys, revokeApiKey } from '../tenancy/api-keys.ts';
import { createApiKeyCheck, createKnownKeyIds } from './api-key-check.ts';
import { createClientIp } from './client-ip.ts';
import { CoalescedWaitTimeout, createCoalescer } from './coalesce.ts';
import { hashSecret, keyIdIn, newKey, parseKey } from './key-format.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

describe('credentials', () => {
  let send: (sent: Sent) => Promise<Received>;

  beforeAll(async () => {
    send = restClient(under);
  });
  afterEach(() => under.gateway.resetLimits());

  const CART = { path: '/api/v1/cart', json: { cart: [1] } };
  const from = (address: string) => ({ 'x-forwarded-for': address });

  /** Repeats a request until the response is as expected, for at most the five seconds of the interface. */
  const untilStatus = (status: number, sent: Sent): Promise<unknown> =>
    until(async () => (await send(sent)).status === status, 5_000, 100);

  describe('revocation', () => {
    test('is effective within 5 seconds', async () => {
      const key = await under.newKey();
      await untilStatus(200, { ...CART, key });
      await revokeApiKey(under.database.pool, { shopId: 1n, keyId: key, by: TEST_AUTHOR });
      await untilStatus(401, { ...CART, key });
    });
  });

  describe('failed credentials', () => {
    const failures = async (count: number, sent: Partial<Sent>): Promise<number[]> => {
      const responses = await Promise.all(
        Array.from({ length: count }, () => send({ ...CART, ...sent })),
      );
      return responses.map(({ status }) => status);
    };
    const countOf = (statuses: readonly number[], status: number): number =>
      statuses.filter((other) => other === status).length;

    test('from the 61st in a minute, the response is 429 instead of 401; a valid key still passes', async () => {
      const headers = from('203.0.113.7');
      const statuses = await failures(70, { key: 'bad', headers });
      expect([countOf(statuses, 401), countOf(statuses, 429)]).toEqual([60, 10]);
      const rejected = await send({ ...CART, key: newKey().text, headers });
      expect(rejected).toMatchObject({
        status: 429,
        body: { message: expect.any(String), errors: {} },
      });
      expect(Number(rejected.headers['retry-after'])).toBeGreaterThanOrEqual(1);
      expect((await send({ ...CART, headers })).status).toBe(200);
      await untilStatus(200, { ...CART, key: await under.newKey(), headers });
    });

    test('a rejected token counts like a rejected key', async () => {
      const headers = { ...from('203.0.113.11'), authorization: 'Bearer nonsense' };
      const sent = { path: '/api/v1/webhooks', key: null, headers };
      const responses = await Promise.all(Array.from({ length: 61 }, () => send(sent)));
      expect(
        countOf(
          responses.map(({ status }) => status),
          429,
        ),
      ).toBe(1);
      expect((await send({ ...CART, key: 'bad', headers: from('203.0.113.11') })).status).toBe(429);
    });

    test('a missing credential does not count', async () => {
      const headers = from('203.0.113.8');
      expect(countOf(await failures(80, { key: null, headers }), 401)).toBe(80);
      expect((await send({ ...CART, key: 'bad', headers })).status).toBe(401);
    });

    test('addresses are counted separately, IPv6 by /64', async () => {
      await failures(61, { key: 'bad', headers: from('2001:db8::1') });
      const status = async (address: string) =>
        (await send({ ...CART, key: 'bad', headers: from(address) })).status;
      expect(await status('2001:db8::ffff')).toBe(429);
      expect(await status('2001:db8:0:1::1')).toBe(401);
      expect(await status('203.0.113.9')).toBe(401);
    });

    test('a missing scope does not count', async () => {
      const key = await under.newKey({ scopes: [] });
      const headers = from('203.0.113.10');
      expect(countOf(await failures(70, { key, headers }), 401)).toBe(70);
    });
  });

  describe('the limit of a key', () => {
    test('is per key, and a reset clears it', async () => {
      const key = await under.newKey({ restPerMinute: 3 });
      const statuses = [];
      for (let at = 0; at < 5; at += 1) statuses.push((await send({ ...CART, key })).status);
      expect(statuses).toEqual([200, 200, 200, 429, 429]);
      await under.gateway.resetLimits();
      expect((await send({ ...CART, key })).status).toBe(200);
    });
  });

  describe('use of a key', () => {
    test('is written when the gateway stops, or earlier', async () => {
      const other = await startTestGateway();
      await restClient(other)({ path: '/api/v1/webhooks' });
      const { pool } = other.database;
      await other.gateway.stop();
      const [used] = await listApiKeys(pool, 1n);
      expect(used?.lastUsedAt).toBeInstanceOf(Date);
      await other.stop();
    });
  });
});

/** The test's database, which counts its statements. */
function counting(): { db: Queryable; statements(): number } {
  let count = 0;
  const db: Queryable = new Proxy(under.database.pool, {
    get(pool, name) {
      const member: unknown = Reflect.get(pool, name);
      if (typeof member !== 'function') return member;
      if (name === 'query') count += 1;
      return member.bind(pool);
    },
  });
  return { db, statements: () => count };
}

const idOf = (key: string): string => parseKey(key)?.keyId ?? '';

describe('known key ids', () => {
  test('contain every existing key, and no invented id', async () => {
    const keys = [under.key, await under.newKey(), await under.newKey()];
    const ids = createKnownKeyIds(under.database.pool);
    for (const key of keys) expect(await ids.mayExist(idOf(key))).toBe(true);
    for (let at = 0; at < 100; at += 1) {
      expect(await ids.mayExist(newKey().keyId)).toBe(false);
    }
  });

  test('contain a new key within five seconds', async () => {
    const ids = createKnownKeyIds(under.database.pool);
    await ids.mayExist('none');
    const id = idOf(await under.newKey());
    await until(() => ids.mayExist(id), 5_000, 100);
  });

  test('are read in pages, even if many keys have the same creation time', async () => {
    const shopId = await under.newShop();
    await under.database.pool.query(
      `insert into api_keys (shop_id, key_id, secret_hash, scopes, description, created_by_kind, created_by_id)
       select $1, lpad(n::text, 12, 'a'), sha256('x'), '{}', 'many', 'system', 'test' from generate_series(1, 25000) n`,
      [shopId],
    );
    const ids = createKnownKeyIds(under.database.pool);
    for (const n of ['1', '10000', '10001', '25000']) {
      expect(await ids.mayExist(n.padStart(12, 'a'))).toBe(true);
    }
  });
});

/** The statements of one read. It reads again all 25,000 keys of the test above, because they have one creation time. */
const PAGES = 3;

describe('a blocked address', () => {
  test('causes no statements for invented keys, and its valid key passes', async () => {
    const { db, statements } = counting();
    const check = createApiKeyCheck(db, () => {});
    const valid = await under.newKey();
    expect(await check.check(newKey().text, { isBlocked: true })).toBeUndefined();
    const before = statements();
    const startedAt = performance.now();
    const invented = Array.from({ length: 2_000 }, () =>
      check.check(newKey().text, { isBlocked: true }),
    );
    expect(new Set(await Promise.all(invented))).toEqual(new Set([undefined]));
    // New keys are read at most once every two seconds, for any number of requests.
    const reads = Math.floor((performance.now() - startedAt) / 2_000) + 1;
    expect(statements() - before).toBeLessThanOrEqual(PAGES * reads);
    expect(await check.check(valid, { isBlocked: true })).toMatchObject({ shopId: 1n });
  });

  test('for another address, an invented key is read from the database, and a new key is accepted immediately', async () => {
    const { db, statements } = counting();
    const check = createApiKeyCheck(db, () => {});
    await check.check(newKey().text);
    expect(statements()).toBe(1);
    expect(await check.check(await under.newKey())).toMatchObject({ shopId: 1n });
  });
});

describe('API key', () => {
  test('has an id of 12 and a secret of 46 characters', () => {
    const { text, keyId, secret } = newKey();
    expect(text).toMatch(/^rms_[a-z0-9]{12}_[A-Za-z0-9]{46}$/);
    expect(text).toBe(`rms_${keyId}_${secret}`);
    expect(parseKey(text)).toEqual({ sandbox: false, keyId, secret });
  });

  test('of a sandbox begins with rms_test_', () => {
    const { text, keyId, secret } = newKey({ sandbox: true });
    expect(text).toMatch(/^rms_test_[a-z0-9]{12}_[A-Za-z0-9]{46}$/);
    expect(parseKey(text)).toEqual({ sandbox: true, keyId, secret });
    expect(keyIdIn(text)).toBe(keyId);
  });

  test('is no key of the other kind when its beginning is changed', () => {
    expect(parseKey(newKey({ sandbox: true }).text.replace('rms_test_', 'rms_'))).toBeUndefined();
    expect(parseKey(newKey().text.replace('rms_', 'rms_test_'))).toBeUndefined();
  });

  test('is always another one', () => {
    const keys = new Set(Array.from({ length: 200 }, () => newKey().text));
    expect(keys.size).toBe(200);
  });

  test('with one wrong character is rejected without a database', () => {
    const { text } = newKey();
    const positions = fc.integer({ min: 4, max: text.length - 1 });
    const characters = fc.constantFrom(...'abcdefgh0123456789');
    fc.assert(
      fc.property(positions, characters, (at, character) => {
        const typo = `${text.slice(0, at)}${character}${text.slice(at + 1)}`;
        return typo === text || parseKey(typo) === undefined;
      }),
    );
  });

  test('never throws on hostile text', () => {
    fc.assert(fc.property(fc.string(), (text) => parseKey(text) === undefined));
  });

  test('only a hash of 32 bytes is stored', () => {
    expect(hashSecret(newKey().secret)).toHaveLength(32);
  });
});

const clientIp = createClientIp(['10.0.0.0/8', '127.0.0.1', 'fd00::/8']);

test.each<[string | undefined, string | undefined, string, string]>([
  ['203.0.113.9', undefined, '203.0.113.9', 'without a header: the peer'],
  ['203.0.113.9', '198.51.100.1', '203.0.113.9', 'an untrusted peer: the header is ignored'],
  ['127.0.0.1', '198.51.100.1', '198.51.100.1', 'a trusted peer'],
  ['::ffff:127.0.0.1', '198.51.100.1', '198.51.100.1', 'a v4-mapped peer'],
  [
    '127.0.0.1',
    '1.2.3.4, 198.51.100.1, 10.1.2.3',
    '198.51.100.1',
    'the right-most address that is not a proxy',
  ],
  ['127.0.0.1', '198.51.100.1, 1.2.3.4', '1.2.3.4', 'the client can write addresses to the left'],
  ['127.0.0.1', '10.0.0.1, 10.0.0.2', '10.0.0.1', 'only proxies: the left-most'],
  ['127.0.0.1', 'nonsense', '127.0.0.1', 'an invalid address is ignored'],
  [
    '127.0.0.1',
    '1.2.3.4, nonsense, 10.0.0.1',
    '10.0.0.1',
    'addresses left of an invalid one are ignored',
  ],
  ['127.0.0.1', '198.51.100.1:4711', '198.51.100.1', 'with a port'],
  ['127.0.0.1', '[2001:db8::1]:4711', '2001:db8::/64', 'IPv6 with a port'],
  ['127.0.0.1', '::ffff:198.51.100.1', '198.51.100.1', 'a v4-mapped address is IPv4'],
  ['127.0.0.1', '2130706433', '127.0.0.1', 'a number is not an address'],
  [undefined, '198.51.100.1', 'unknown', 'a closed socket has no peer'],
])('%s, %j is %s: %s', (peer, header, expected, _why) => {
  expect(clientIp(peer, header)).toBe(expected);
});

test('an IPv6 address becomes its /64', () => {
  const address = clientIp('2001:db8:1:2:3:4:5:6', undefined);
  expect(clientIp('2001:db8:1:2:ffff::1', undefined)).toBe(address);
  expect(clientIp('2001:db8:1:3::1', undefined)).not.toBe(address);
});

test('never throws, for any header', () => {
  fc.assert(
    fc.property(fc.string(), (header) => typeof clientIp('127.0.0.1', header) === 'string'),
  );
});

test.each([
  ['10.0.0.0/99', 'must be addresses'],
  ['10.0.0.0/', 'must be addresses'],
  ['10.1', 'must be addresses'],
  ['balancer.internal', 'must be addresses'],
  ['0.0.0.0/0', 'wider than /8'],
  ['128.0.0.0/1', 'wider than /8'],
  ['::/0', 'wider than /7'],
  ['::0/0', 'wider than /7'],
])('rejects %s at the start', (range, why) => {
  expect(() => createClientIp(['10.0.0.0/8', range])).toThrow(why);
});

test.each(['10.0.0.0/8', '100.64.0.0/10', 'fc00::/7', '::1', '192.0.2.7/32'])(
  'accepts %s',
  (range) => {
    expect(() => createClientIp([range])).not.toThrow();
  },
);

/** Coalesces calls of a `run` that blocks until `release`. A result is `<key>:<number of the run>:<number of the call>`. */
function blocking(o: { timeoutMs?: number } = {}) {
  const runs: [string, number][] = [];
  const blocked: (() => void)[] = [];
  const call = createCoalescer(async (key, count) => {
    runs.push([key, count]);
    const run = runs.length;
    await new Promise<void>((resolve) => blocked.push(resolve));
    return Array.from({ length: count }, (_, at) => `${key}:${run}:${at}`);
  }, o);
  const turn = () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
  return {
    call,
    runs,
    turn,
    async release() {
      await turn();
      blocked.shift()?.();
      await turn();
    },
  };
}

describe('coalesced calls', () => {
  // Fake timers: the time limit expires when a test advances the time.
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  test('calls in one turn of the event loop share one run, and each gets its own result', async () => {
    const { call, runs, release } = blocking();
    const responses = Promise.all([call('a'), call('a'), call('a')]);
    await release();
    expect(await responses).toEqual(['a:1:0', 'a:1:1', 'a:1:2']);
    expect(runs).toEqual([['a', 3]]);
  });

  test('a call that arrives during a run gets its result from the next run', async () => {
    const { call, runs, turn, release } = blocking();
    const first = call('a');
    await turn();
    const late = Promise.all([call('a'), call('a')]);
    await release();
    expect(await first).toBe('a:1:0');
    await release();
    expect(await late).toEqual(['a:2:0', 'a:2:1']);
    expect(runs).toEqual([
      ['a', 1],
      ['a', 2],
    ]);
  });

  test('keys do not wait for each other', async () => {
    const { call, runs, turn, release } = blocking();
    const both = Promise.all([call('a'), call('b')]);
    await turn();
    expect(runs).toEqual([
      ['a', 1],
      ['b', 1],
    ]);
    await release();
    await release();
    expect(await both).toEqual(['a:1:0', 'b:2:0']);
  });

  test('calls are rejected after the time limit, and there is no later run for them', async () => {
    const { call, runs, turn } = blocking({ timeoutMs: 100 });
    const first = call('a');
    await turn();
    const all = Promise.allSettled([first, call('a'), call('a')]);
    jest.advanceTimersByTime(100);
    const results = await all;
    const tooLong = { status: 'rejected', reason: expect.any(CoalescedWaitTimeout) };
    expect(results).toEqual([tooLong, tooLong, tooLong]);
    expect(isOutage(new CoalescedWaitTimeout())).toBe(true);
    expect(runs).toEqual([['a', 1]]);
  });

  test('the time limit includes the wait for the current run', async () => {
    const { call, runs, turn, release } = blocking({ timeoutMs: 2_000 });
    const first = call('a');
    await turn();
    const late = expect(call('a')).rejects.toThrow(CoalescedWaitTimeout);
    await release();
    expect(await first).toBe('a:1:0');
    jest.advanceTimersByTime(2_000);
    await late;
    expect(runs).toHaveLength(2);
  });

  test('a failure rejects all calls of its run, and no later calls', async () => {
    let isBroken = true;
    const call = createCoalescer(async (_key, count) => {
      if (isBroken) throw new Error('unavailable');
      return new Array<number>(count).fill(1);
    });
    const results = await Promise.allSettled([call('a'), call('a')]);
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    isBroken = false;
    expect(await call('a')).toBe(1);
  });
});
