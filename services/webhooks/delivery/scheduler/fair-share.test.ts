import { afterEach, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import pg from 'pg';
import { newShop } from '../../../../test/kit/services/running-service.ts';
import { until } from '../../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../../test/kit/webhooks/receiver.ts';
import {
  keyring,
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';
import { newSecret } from '../../../platform/outbound/signature.ts';
import { SECRETS } from '../../subscriptions/secrets.ts';
import {
  type Capacity,
  type EndpointCapacity,
  freeCapacity,
  type HealthClass,
} from './capacity.ts';
import { type Candidate, shareFairly } from './scheduler.ts';

const healthClasses = fc.constantFrom<HealthClass>('trusted', 'new', 'slow', 'failing');

interface Scene {
  readonly candidates: readonly Candidate[];
  readonly capacities: ReadonlyMap<string, EndpointCapacity>;
}

/** Shops with endpoints with queues, in random order. */
const scenes: fc.Arbitrary<Scene> = fc
  .array(
    fc.array(
      fc.record({
        queues: fc.integer({ min: 1, max: 3 }),
        free: fc.integer({ min: -1, max: 8 }),
        healthClass: healthClasses,
      }),
      { minLength: 1, maxLength: 4 },
    ),
    { minLength: 1, maxLength: 5 },
  )
  .chain((shops) => {
    const capacities = new Map<string, EndpointCapacity>();
    const candidates: Candidate[] = shops.flatMap((endpoints, shop) =>
      endpoints.flatMap(({ queues, ...capacity }, nth) => {
        const endpointKey = `${shop}:${nth}`;
        capacities.set(endpointKey, capacity);
        return Array.from({ length: queues }, (_, queue) => ({
          key: `${endpointKey}:${queue}`,
          shopId: BigInt(shop),
          endpointKey,
          lastGrant: 0,
        }));
      }),
    );
    return fc
      .shuffledSubarray(candidates, { minLength: candidates.length, maxLength: candidates.length })
      .map((shuffled) => ({ candidates: shuffled, capacities }));
  });

const places = fc.record({
  all: fc.integer({ min: 0, max: 40 }),
  untrusted: fc.integer({ min: 0, max: 40 }),
  bad: fc.integer({ min: 0, max: 40 }),
  reserved: fc.record({ new: fc.nat(5), failing: fc.nat(5) }),
});

/** Places for all endpoints together, trusted ones first. */
const placesFor = (all: number): Capacity => ({
  all,
  untrusted: 0,
  bad: 0,
  reserved: { new: 0, failing: 0 },
});

const queueOf = (shopId: bigint, key: string): Candidate => ({
  key,
  shopId,
  endpointKey: key,
  lastGrant: 0,
});

const sum = (numbers: Iterable<number>): number => [...numbers].reduce((a, b) => a + b, 0);

function given({ candidates, capacities }: Scene, free: Capacity) {
  const result = shareFairly(candidates, free, {
    capacityOf: (key) => capacities.get(key) ?? { free: 0, healthClass: 'failing' },
    lastGrantOf: () => 0,
  });
  const of = (isOf: (one: Candidate) => boolean) =>
    sum(candidates.filter(isOf).map(({ key }) => result.get(key) ?? 0));
  const healthClassOf = ({ endpointKey }: Candidate) => capacities.get(endpointKey)?.healthClass;
  return { result, of, healthClassOf, total: sum(result.values()) };
}

describe('the fair share', () => {
  test('never exceeds a limit: in total, by health class, by endpoint', () => {
    fc.assert(
      fc.property(scenes, places, (scene, free) => {
        const { of, healthClassOf, total } = given(scene, free);
        const { reserved } = free;
        const beside = reserved.new + reserved.failing;
        const ofHealthClass = (...some: HealthClass[]) =>
          of((one) => some.some((healthClass) => healthClass === healthClassOf(one)));
        expect(total).toBeLessThanOrEqual(free.all + beside);
        expect(ofHealthClass('trusted')).toBeLessThanOrEqual(free.all);
        expect(ofHealthClass('new', 'slow', 'failing')).toBeLessThanOrEqual(
          free.untrusted + beside,
        );
        expect(ofHealthClass('slow')).toBeLessThanOrEqual(free.bad);
        expect(ofHealthClass('slow', 'failing')).toBeLessThanOrEqual(free.bad + reserved.failing);
        for (const [key, capacity] of scene.capacities) {
          expect(of((one) => one.endpointKey === key)).toBeLessThanOrEqual(
            Math.max(0, capacity.free),
          );
        }
      }),
    );
  });

  test('leaves no capacity unused that a trusted endpoint could use', () => {
    fc.assert(
      fc.property(scenes, places, (scene, free) => {
        const { of, total } = given(scene, free);
        if (total >= free.all) return;
        for (const [key, capacity] of scene.capacities) {
          if (capacity.healthClass !== 'trusted') continue;
          expect(of((one) => one.endpointKey === key)).toBe(Math.max(0, capacity.free));
        }
      }),
    );
  });

  test('gives no shop two more than another that could still use one', () => {
    fc.assert(
      fc.property(scenes, fc.integer({ min: 0, max: 40 }), (scene, all) => {
        const capacities = new Map(
          [...scene.capacities].map(([key, { free }]) => [
            key,
            { free, healthClass: 'trusted' as const },
          ]),
        );
        const { of } = given({ ...scene, capacities }, placesFor(all));
        const shops = [...new Set(scene.candidates.map(({ shopId }) => shopId))];
        const got = shops.map((shop) => of(({ shopId }) => shopId === shop));
        const could = shops.map((shop) =>
          sum(
            [...capacities]
              .filter(([key]) => key.startsWith(`${shop}:`))
              .map(([, { free }]) => Math.max(0, free)),
          ),
        );
        const most = Math.max(...got);
        shops.forEach((_, at) => {
          const left = (could[at] ?? 0) - (got[at] ?? 0);
          if (left > 0) expect(most - (got[at] ?? 0)).toBeLessThanOrEqual(1);
        });
      }),
    );
  });

  test('a shop with many endpoints gets no more places than a shop with one', () => {
    const candidates = [1, 2, 3, 4].map((n) => queueOf(1n, `a${n}`));
    candidates.push(queueOf(2n, 'b'));
    const capacities = placesFor(4);
    const capacityOf = () => ({ free: 3, healthClass: 'trusted' }) as const;
    const result = shareFairly(candidates, capacities, { capacityOf, lastGrantOf: () => 0 });
    expect(result.get('b')).toBe(2);
    expect(sum(result.values())).toBe(4);
  });

  test('a new endpoint of a busy shop is served before a crowd that was served already', () => {
    const crowd = Array.from({ length: 50 }, (_, n) => queueOf(1n, `c${n}`));
    const candidates = [...crowd, queueOf(2n, 'busy'), queueOf(2n, 'fresh')];
    const capacityOf = (key: string): EndpointCapacity => ({
      free: 8,
      healthClass: key === 'busy' ? 'trusted' : 'new',
    });
    const lastGrantOf = (shop: bigint, healthClass: HealthClass) =>
      shop === 1n ? 1 : healthClass === 'trusted' ? 9 : 0;
    const free = { all: 0, untrusted: 0, bad: 0, reserved: { new: 1, failing: 1 } };
    expect([...shareFairly(candidates, free, { capacityOf, lastGrantOf })]).toEqual([['fresh', 1]]);
  });

  test('one place at a time, shops alternate, and so do the endpoints and queues of each', () => {
    const lastGrants = new Map<string | bigint, number>();
    const lastGrantOf = (key: string | bigint) => lastGrants.get(key) ?? 0;
    const capacityOf = () => ({ free: 8, healthClass: 'trusted' }) as const;
    const queues = ['x1', 'x2', 'y1', 'z1'].map((key) => ({
      ...queueOf(1n, key),
      endpointKey: key.slice(0, 1),
    }));
    const got = Array.from({ length: 16 }, (_, nth) => {
      const candidates = [...queues, queueOf(2n, 'b')].map((one) => ({
        ...one,
        lastGrant: lastGrantOf(one.key),
      }));
      const [key = ''] = shareFairly(candidates, placesFor(1), { capacityOf, lastGrantOf }).keys();
      lastGrants.set(key, nth + 1).set(key === 'b' ? 2n : 1n, nth + 1);
      return key;
    });
    const times = (key: string) => got.filter((one) => one === key).length;
    expect(times('b')).toBe(8);
    expect(['x1', 'x2', 'y1', 'z1'].map(times)).toEqual([2, 2, 2, 2]);
  });
});

describe('places', () => {
  const loads = fc
    .record({
      limit: fc.integer({ min: 4, max: 1_000 }),
      trusted: fc.nat(2_000),
      new: fc.nat(2_000),
      slow: fc.nat(2_000),
      failing: fc.nat(2_000),
    })
    .map(({ trusted, ...load }) => ({
      ...load,
      all: trusted + load.new + load.slow + load.failing,
    }));

  test('are never more than twice the configured number in total', () => {
    fc.assert(
      fc.property(loads, (load) => {
        const free = freeCapacity(load);
        expect(free.all).toBeGreaterThanOrEqual(0);
        expect(load.all + free.all).toBeLessThanOrEqual(Math.max(load.all, 2 * load.limit));
        expect(free.untrusted).toBeLessThanOrEqual(free.all);
        expect(free.bad).toBeLessThanOrEqual(free.untrusted);
      }),
    );
  });

  test('half of them stay for trusted endpoints, three quarters for those that are not slow or failing', () => {
    fc.assert(
      fc.property(loads, (load) => {
        const free = freeCapacity(load);
        const half = Math.floor(load.limit / 2);
        const quarter = Math.floor(load.limit / 4);
        const bad = load.slow + load.failing;
        expect(free.untrusted + load.new + bad).toBeLessThanOrEqual(Math.max(half, load.new + bad));
        expect(free.bad + bad).toBeLessThanOrEqual(Math.max(quarter, bad));
      }),
    );
  });

  test('half of them stay for trusted endpoints, however long reserved ones hang, second by second', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 4, max: 1_000 }),
        fc.integer({ min: 1, max: 60 }),
        (limit, s) => {
          let slow = 0;
          for (let second = 0; second < s; second += 1) {
            const { untrusted, reserved } = freeCapacity({
              limit,
              all: slow,
              new: 0,
              slow,
              failing: 0,
            });
            slow += Math.max(untrusted, reserved.new) + reserved.failing;
          }
          const { all } = freeCapacity({ limit, all: slow, new: 0, slow, failing: 0 });
          expect(all).toBeGreaterThanOrEqual(Math.floor(limit / 2) - 2);
        },
      ),
    );
  });

  test('stay available when all open attempts hang, some for new endpoints', () => {
    expect(freeCapacity({ limit: 512, all: 512, new: 0, slow: 512, failing: 0 })).toEqual({
      all: 256,
      untrusted: 0,
      bad: 0,
      reserved: { new: 16, failing: 0 },
    });
    const hanging = { limit: 512, all: 300, new: 0, slow: 300, failing: 0 };
    expect(freeCapacity(hanging).reserved).toEqual({ new: 16, failing: 8 });
    expect(freeCapacity({ ...hanging, all: 310, new: 10 }).reserved.new).toBe(6);
  });
});

describe('a crowd of hanging endpoints', () => {
  let webhooks: WebhooksUnderTest;
  let receiver: Receiver;

  async function start(concurrency: number): Promise<void> {
    // Attempts that hang outlast the test on a slow machine, too.
    webhooks = await runWebhooks({ WEBHOOK_CONCURRENCY: concurrency, attemptMs: 300_000 });
    receiver = await startReceiver();
  }
  afterEach(async () => {
    // Ends hanging attempts with the test.
    await receiver.stop();
    await webhooks.stop();
  });

  /** Endpoints with a subscription each. */
  async function crowdOf(shopId: bigint, count: number): Promise<void> {
    const { pool } = webhooks.db;
    await pool.query(
      `with e as (
       insert into endpoints (shop_id, url, url_sha256)
       select $1, $2::text || n, sha256(n::text::bytea) from generate_series(1, $3::integer) n returning id
     )
     insert into subscriptions (shop_id, topic, trigger, endpoint_id, status)
     select $1, 'return', 'return.closed', e.id, 'active' from e`,
      [shopId, `${receiver.url}/hanging`, count],
    );
    const { rows } = await pool.query<{ id: bigint }>(
      `insert into subscription_queues (shop_id, subscription_id, endpoint_id, topic, trigger, shard, is_open)
     select shop_id, id, endpoint_id, topic, trigger, endpoint_id % 32, true
       from subscriptions where shop_id = $1
     returning subscription_id as id`,
      [shopId],
    );
    const secrets = rows.map(({ id }) =>
      keyring.encrypt(newSecret(), SECRETS.contextOf({ shopId, subscriptionId: id })),
    );
    await pool.query(
      `insert into secrets (shop_id, subscription_id, key_id, sealed)
     select $1, * from unnest($2::bigint[], $3::text[], $4::bytea[])`,
      [
        shopId,
        rows.map(({ id }) => id),
        secrets.map((one) => one.keyId),
        secrets.map((one) => one.encrypted),
      ],
    );
  }

  /** Changes the time at which the shop's deliveries were queued. */
  async function inflate(shopId: bigint, bytes: number): Promise<void> {
    const migrator = new pg.Client({ connectionString: webhooks.db.migratorUrl });
    await migrator.connect();
    await migrator.query(
      `create function webhooks.inflate() returns trigger language plpgsql
         as 'begin new.bytes := ${bytes}; return new; end';
     create trigger inflate before insert on webhooks.queue for each row
       when (new.shop_id = ${shopId}) execute function webhooks.inflate()`,
    );
    await migrator.end();
  }

  /**
   * Sends to a known and to a new endpoint while a crowd hangs. Returns how many attempts of the crowd had ended by then.
   */
  async function sendBeside(crowd: bigint, count: number): Promise<number> {
    let ended = 0;
    const [known, fresh] = [newShop(), newShop()];
    receiver.answer = (response, { path }) => {
      if (path.includes('hanging')) response.once('close', () => (ended += 1));
      else response.writeHead(200).end();
    };
    await crowdOf(crowd, count);
    await webhooks.subscribe({ shopId: known, url: `${receiver.url}/known` });
    await webhooks.subscribe({ shopId: fresh, url: `${receiver.url}/fresh` });
    const arrived = (name: string) =>
      receiver.received.filter(({ path }) => path.endsWith(name)).length;
    for (const n of [1, 2, 3, 4]) {
      await webhooks.publish(sampleEvent('return.closed', known));
      await until(() => arrived('known') === n);
    }
    await webhooks.publish(
      sampleEvent('return.closed', crowd),
      sampleEvent('return.closed', crowd),
    );
    await until(() => receiver.received.length >= 4 + 8);
    // Until the process knows that they hang.
    const hangingSince = performance.now();
    await until(() => performance.now() - hangingSince > 1_500);
    await webhooks.publish(
      sampleEvent('return.closed', known),
      sampleEvent('return.closed', fresh),
    );
    await until(() => arrived('known') === 5 && arrived('fresh') === 1);
    return ended;
  }

  test('more hanging endpoints than active queues delay no other endpoint, known or new', async () => {
    await start(16);
    expect(await sendBeside(newShop(), 2_200)).toBe(0);
  });

  test('large bodies that hang delay no other endpoint, known or new', async () => {
    await start(128);
    const crowd = newShop();
    await inflate(crowd, 1_300_000);
    expect(await sendBeside(crowd, 200)).toBe(0);
  });
});
