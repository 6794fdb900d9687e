import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { timestampDate } from '@bufbuild/protobuf/wkt';
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { DeliveryState } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { createAuthority } from '../../../test/kit/certificates.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { actor, newShop } from '../../../test/kit/services/running-service.ts';
import { silentLogger } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import { startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import { runWebhooks } from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import type { Dial } from '../../platform/outbound/open-socket.ts';
import { NetworkHolds } from '../delivery/endpoint/network-holds.ts';
import { purge } from '../maintenance.ts';
import { NetworkLimit, NetworkLimited } from './network-limit.ts';
import { createSender, type SenderOptions } from './send.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('webhooks');
});
afterAll(() => db.drop());

const DAYS = { log: 30, events: 7 };
const MIB = 1024 ** 2;
let addresses = 0;
const newAddress = (): string => `93.184.1.${++addresses}`;

/** Lets time pass for what the database stores. @param interval such as `61 seconds`. */
async function pass(interval: string): Promise<void> {
  await db.pool.query(
    `update receiver_networks set minute_at = minute_at - $1::interval, hour_at = hour_at - $1::interval,
       large_at = large_at - $1::interval, proven_at = proven_at - $1::interval`,
    [interval],
  );
}

describe('what a receiver gets before its first 2xx', () => {
  /** The limit of one process. Its clock does not stop it from asking the database, unless a test wants that. */
  function process(nowMs?: () => number) {
    let clock = 0;
    const later = () => {
      clock += 100_000;
      return clock;
    };
    return new NetworkLimit({ pool: db.pool, logger: silentLogger(), nowMs: nowMs ?? later });
  }
  const isTaken = async (limit: NetworkLimit, address: string, bytes = 1): Promise<boolean> =>
    limit.take(address, bytes).then(
      () => true,
      (error: Error) => {
        expect(error.name).toBe('NetworkLimited');
        return false;
      },
    );
  const count = async (takes: readonly Promise<boolean>[]): Promise<number> =>
    (await Promise.all(takes)).filter(Boolean).length;
  const times = <T>(n: number, make: (at: number) => T): T[] =>
    Array.from({ length: n }, (_, at) => make(at));

  test('is ten attempts a minute, over processes at the same time', async () => {
    const address = newAddress();
    const limits = [process(), process()];
    const takes = () => times(20, () => limits.map((limit) => isTaken(limit, address))).flat();
    expect(await count(takes())).toBe(10);
    await pass('59 seconds');
    expect(await count(takes())).toBe(0);
    await pass('2 seconds');
    expect(await count(takes())).toBe(10);
    expect(await count(times(5, () => isTaken(process(), newAddress())))).toBe(5);
  });

  test('is 1 MiB an hour, and one larger body an hour', async () => {
    const [address, limit] = [newAddress(), process()];
    const sizes = [MIB - 10, 11, 10, 9 * MIB, 2 * MIB];
    const all = async () => {
      const taken: boolean[] = [];
      for (const size of sizes) taken.push(await isTaken(limit, address, size));
      return taken;
    };
    expect(await all()).toEqual([true, false, true, true, false]);
    await pass('59 minutes');
    expect(await all()).toEqual([false, false, false, false, false]);
    await pass('2 minutes');
    expect(await all()).toEqual([true, false, true, true, false]);
  });

  test.each([
    [
      'an IPv4 address and the IPv6 forms of it',
      ['93.184.2.1', '::ffff:93.184.2.1', '64:ff9b::5db8:201'],
      1,
    ],
    ['the addresses of an IPv6 network', ['2a00:1:2:3::1', '2a00:1:2:3:ffff::2'], 1],
    ['two IPv6 networks', ['2a00:1:2:4::1', '2a00:1:2:5::1'], 2],
  ])('is counted for %s as for %s', async (_what, same, networks) => {
    const limit = process();
    const takes = times(30, (at) => isTaken(limit, same[at % same.length] ?? ''));
    expect(await count(takes)).toBe(10 * networks);
  });

  test('has no limit after the first 2xx, in any process, for 30 days after the last one', async () => {
    const [address, limit] = [newAddress(), process(() => 0)];
    expect(await count(times(11, () => isTaken(limit, address)))).toBe(10);
    limit.proved(address);
    expect(await isTaken(limit, address, 2 * MIB)).toBe(true);
    const proven = 'select from receiver_networks where network = $1 and proven_at is not null';
    await until(async () => (await db.pool.query(proven, [address])).rowCount === 1);
    await pass('29 days');
    await purge(db.pool, DAYS);
    expect(await count(times(20, () => isTaken(process(), address, 2 * MIB)))).toBe(20);
    await pass('2 days');
    expect(await count(times(20, () => isTaken(process(), address)))).toBe(10);
  });

  test('costs no statement once this process knows that the receiver answers', async () => {
    let statements = 0;
    const query = (...all: Parameters<typeof db.pool.query>) => {
      statements += 1;
      return db.pool.query(...all);
    };
    const pool = { query } as unknown as TestDatabase['pool'];
    const limit = new NetworkLimit({ pool, logger: silentLogger(), nowMs: () => 0 });
    const address = newAddress();
    for (const _ of times(50, () => 0)) {
      await limit.take(address, 1);
      limit.proved(address);
    }
    expect(statements).toBe(2);
    // One that must wait is not asked for again, either.
    const other = newAddress();
    await Promise.all(times(10, () => limit.take(other, 1)));
    for (const _ of times(50, () => 0)) expect(await isTaken(limit, other)).toBe(false);
    expect(statements).toBe(2 + 11);
  });

  test('delays the endpoints of the receiver until it answers 2xx', async () => {
    const [address, limit] = [newAddress(), process(() => 0)];
    const released: unknown[] = [];
    const holds = new NetworkHolds({ limit, onReleased: (endpoint) => released.push(endpoint) });
    await count(times(10, () => isTaken(limit, address)));
    const error = await limit.take(address, 1).catch((thrown: NetworkLimited) => thrown);
    const endpoint = { shopId: 1n, endpointId: 2n };
    holds.hold(endpoint, error as NetworkLimited);
    limit.proved(newAddress());
    expect(released).toEqual([]);
    expect(holds.waitMs('1:2')).toBeGreaterThanOrEqual(60_000);
    limit.proved(address);
    expect(released).toEqual([expect.objectContaining(endpoint)]);
    expect(holds.waitMs('1:2')).toBe(0);
  });

  test('is deleted when it means nothing any more', async () => {
    const [address, other] = [newAddress(), newAddress()];
    await process().take(address, 1);
    await process().take(other, 2 * MIB);
    const rows = async () =>
      (
        await db.pool.query('select from receiver_networks where network = any($1)', [
          [address, other],
        ])
      ).rowCount;
    await pass('59 minutes');
    await purge(db.pool, DAYS);
    expect(await rows()).toBe(2);
    await pass('2 minutes');
    await purge(db.pool, DAYS);
    expect(await rows()).toBe(0);
  });

  test.each([
    ['out', () => Promise.reject(Object.assign(new Error('down'), { code: 'ECONNREFUSED' }))],
    ['too slow', () => new Promise<never>(() => {})],
  ])(
    'is not limited while the database is %s, and one statement at a time is tried',
    async (_what, fail) => {
      let statements = 0;
      const query = () => {
        statements += 1;
        return fail();
      };
      const pool = { query } as unknown as TestDatabase['pool'];
      const limit = new NetworkLimit({ pool, logger: silentLogger(), nowMs: () => 0 });
      const address = newAddress();
      expect(await count(times(5, () => isTaken(limit, address)))).toBe(5);
      expect(statements).toBe(5);
      expect(await count(times(20, () => isTaken(limit, address)))).toBe(20);
      expect(statements).toBeLessThanOrEqual(6);
      limit.proved(address);
    },
  );

  test('still holds while the database is too slow, if it was reached before', async () => {
    let isReached = false;
    const query = () =>
      isReached ? new Promise(() => {}) : Promise.resolve({ rows: [{ isTaken: false }] });
    const pool = { query } as unknown as TestDatabase['pool'];
    const limit = new NetworkLimit({ pool, logger: silentLogger(), nowMs: () => 0 });
    const address = newAddress();
    const other = newAddress();
    const reaching = isTaken(limit, address);
    isReached = true;
    expect(await Promise.all([reaching, isTaken(limit, address), isTaken(limit, other)])).toEqual([
      false,
      false,
      true,
    ]);
  });
});

/**
 * Receivers with public names and addresses, by address. Others cannot be reached. Each name below `github.io` is a
 * domain of its own, so that a shop may have many.
 */
async function publicNet(ports: Readonly<Record<string, number>>) {
  const authority = createAuthority('public');
  const servers = await Promise.all(
    Object.entries(ports).map(async ([address, port]) => {
      const tls = createTlsServer(authority.issue({ name: '*.github.io' }), (socket) => {
        socket.on('error', () => {});
        socket.pipe(connect(port, '127.0.0.1')).pipe(socket);
      });
      tls.listen(0, '127.0.0.1');
      await once(tls, 'listening');
      return { address, tls };
    }),
  );
  const dial: Dial = ([reached = '']): Socket => {
    const found = servers.find(({ address }) => address === reached);
    const socket = connect(found ? (found.tls.address() as AddressInfo).port : 1, '127.0.0.1');
    return Object.defineProperty(socket, 'remoteAddress', { value: reached });
  };
  const stop = () => {
    for (const { tls } of servers) tls.close();
  };
  return { ca: authority.cert, dial, resolve: async () => Object.keys(ports), stop };
}

describe('an attempt', () => {
  const policy = { allowedOrigins: [], isAllowedOrigin: () => false, stackPorts: () => [] };
  const sending = { url: 'https://hooks.github.io/', headers: {}, body: Buffer.from('{}') };
  const ends: (() => unknown)[] = [];
  afterEach(async () => {
    jest.useRealTimers();
    for (const end of ends.splice(0)) await end();
  });
  const senderOf = (o: Omit<SenderOptions, 'policy'>) => {
    const sender = createSender({ ...o, policy });
    ends.push(() => sender.close());
    return sender;
  };
  const receiving = async (status: number) => {
    const receiver = await startReceiver();
    receiver.answer = (response) => void response.writeHead(status).end();
    ends.push(() => receiver.stop());
    return receiver;
  };

  test('does not count the time of our database as time of the receiver', async () => {
    const [receiver, address] = [await receiving(204), newAddress()];
    const net = await publicNet({ [address]: receiver.port });
    ends.push(net.stop);
    jest.useFakeTimers({
      doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate', 'setInterval'],
    });
    let error: Error | undefined;
    const take = async () => {
      await Promise.resolve();
      jest.advanceTimersByTime(20_000);
      if (error) throw error;
    };
    const sender = senderOf({ ...net, limit: { take, proved: () => {} } });
    // The second one uses the connection of the first.
    for (const _ of [1, 2])
      expect(await sender.send(sending)).toMatchObject({ kind: 'delivered', status: 204 });
    error = new NetworkLimited(address, address);
    await expect(sender.send(sending)).rejects.toBe(error);
    expect(receiver.received).toHaveLength(2);
  });

  test('uses the next address of the name when one is at its limit', async () => {
    const [failing, good] = [await receiving(500), await receiving(204)];
    const [bad, proven, none] = [newAddress(), newAddress(), newAddress()];
    const net = await publicNet({ [bad]: failing.port, [proven]: good.port });
    ends.push(net.stop);
    const limit = new NetworkLimit({ pool: db.pool, logger: silentLogger(), nowMs: () => 0 });
    const sender = senderOf({ ...net, limit });
    const kinds: string[] = [];
    for (let nth = 1; nth <= 15; nth += 1) kinds.push((await sender.send(sending)).kind);
    expect(kinds.filter((kind) => kind === 'delivered')).toHaveLength(5);
    expect([failing.received.length, good.received.length]).toEqual([10, 5]);
    // Without an address that answers, the attempt waits, and does not count.
    const alone = senderOf({ ...net, limit, resolve: async () => [bad, none] });
    await expect(alone.send(sending)).rejects.toMatchObject({ network: bad });
  });

  test('is made while the table of the limits is locked', async () => {
    const [receiver, address] = [await receiving(204), newAddress()];
    const net = await publicNet({ [address]: receiver.port });
    ends.push(net.stop);
    const webhooks = await runWebhooks({ db, ...net });
    ends.unshift(() => webhooks.stop());
    const shopId = newShop();
    for (let nth = 1; nth <= 12; nth += 1)
      await webhooks.subscribe({ shopId, url: `https://hooks${nth}.github.io/` });
    const locking = await db.pool.connect();
    try {
      await locking.query('begin; lock table receiver_networks in access exclusive mode');
      await webhooks.publish(sampleEvent('return.closed', shopId));
      const rows = await until(async () => {
        const all = await webhooks.deliveries(shopId);
        return all.every(({ state }) => state === DeliveryState.DELIVERED) && all;
      });
      expect(rows.map(({ attempts }) => attempts.length)).toEqual(Array(12).fill(1));
    } finally {
      await locking.query('rollback');
      locking.release();
    }
  });
});

describe.each([1, 2])('webhooks on many names of one address, with %d processes', (processes) => {
  const WEBHOOKS = 30;

  test('send it ten attempts a minute until it answers 2xx, lose none, and then send the rest', async () => {
    const receiver = await startReceiver();
    receiver.answer = (response) => void response.writeHead(500).end();
    const address = newAddress();
    const { stop, ...net } = await publicNet({ [address]: receiver.port });
    const o = { db, ...net };
    const all = [await runWebhooks(o), ...(processes > 1 ? [await runWebhooks(o)] : [])];
    const [one] = all;
    if (!one) throw new Error('it was started');
    await until(async () => (await holders()).length === processes);

    const shopId = newShop();
    for (let nth = 1; nth <= WEBHOOKS; nth += 1)
      await one.subscribe({ shopId, url: `https://hooks${nth}.github.io/` });
    await one.publish(sampleEvent('return.closed', shopId));
    let offsetMs = 0;
    const nextMinute = async () => {
      await pass('61 seconds');
      offsetMs += 75_000;
      for (const each of all) each.advance(75);
    };
    const logged = async () => await one.deliveries(shopId);
    /** The webhooks whose owner sees that a limit delays them. */
    const delayed = async () => {
      const call = { shopId, actor, includeBacklog: true };
      const { subscriptions } = await one.client.listSubscriptions(call);
      const nowMs = Date.now() + offsetMs;
      const isDelayed = ({ backlog }: (typeof subscriptions)[number]): boolean =>
        backlog?.delayedUntil !== undefined &&
        timestampDate(backlog.delayedUntil).getTime() > nowMs + 20_000;
      return subscriptions.filter(isDelayed).length;
    };
    /** Resolves when nothing more is sent: the other webhooks wait, and the attempts are in the log. */
    const sentAndRest = async (sent: number) => {
      await until(async () => (await delayed()) >= WEBHOOKS - 10);
      await until(async () => (await logged()).flatMap(({ attempts }) => attempts).length === sent);
      expect(receiver.received).toHaveLength(sent);
    };
    await sentAndRest(10);
    await nextMinute();
    await until(() => receiver.received.length === 20);
    await sentAndRest(20);

    receiver.answer = (response) => void response.writeHead(204).end();
    await nextMinute();
    const proven = 'select from receiver_networks where network = $1 and proven_at is not null';
    await until(async () => (await db.pool.query(proven, [address])).rowCount === 1);
    // Another process notices it within about a minute.
    if (processes > 1) for (const each of all) each.advance(75);
    const delivered = await until(async () => {
      const rows = await logged();
      return rows.every(({ state }) => state === DeliveryState.DELIVERED) && rows;
    });
    expect(delivered).toHaveLength(WEBHOOKS);
    const { length: attempts } = delivered.flatMap((row) => row.attempts);
    expect(receiver.received).toHaveLength(attempts);
    expect(attempts).toBe(20 + WEBHOOKS);
    for (const each of all) await each.stop();
    stop();
    await receiver.stop();
  });
});

/** The processes that send, by their number of shards. */
async function holders(): Promise<number[]> {
  const { rows } = await db.pool.query<{ shards: number }>(
    `select count(*)::int as shards from leases
      where starts_with(name, 'deliveries/shard/') and expires_at > now() group by owner`,
  );
  return rows.map(({ shards }) => shards);
}
