import { randomUUID } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { advanceClock, restoreClock } from '../../../test/kit/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  ALL_PUBLISHED,
  appendTo,
  drain,
  publisherOn,
  rememberingBus,
  testEvent,
} from '../../../test/kit/events/outbox.ts';
import { startPublisher } from '../../../test/kit/events/publisher.ts';
import { silentLogger, testTelemetry } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import type { BusRecord, EventBus } from '../bus/event-bus.ts';
import { inTransaction } from '../postgres/postgres.ts';
import { type Telemetry, withTraceparent } from '../telemetry/telemetry.ts';
import { appendEvents, type NewEvent } from './append.ts';
import { parseEvent } from './parse.ts';
import { type Publisher, type Relay, startRelay } from './relay.ts';
import { replayEvents } from './replay-command.ts';
import { backlogOf } from './store.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase('fraud');
});
afterAll(() => database.drop());

/** Long, so that a slow machine keeps the shards. Milliseconds. */
const LEASE_MS = 60_000;

describe('outbox relay', () => {
  let database: TestDatabase;
  let telemetry: Telemetry;
  beforeAll(async () => {
    database = await createTestDatabase('fraud');
    telemetry = await testTelemetry();
  });
  afterAll(async () => {
    await telemetry.stop();
    await database.drop();
  });
  beforeEach(() => database.pool.query(ALL_PUBLISHED));

  const running = new Set<Relay>();
  const stop = async (relay: Relay): Promise<void> => {
    running.delete(relay);
    await relay.stop();
  };
  const start = (bus: EventBus, o: { pollMs?: number; leaseMs?: number } = {}): Relay => {
    const about = { topic: 't', logger: silentLogger(), telemetry, retentionDays: 7 };
    const relay = startRelay({ pool: database.pool, bus, ...about, leaseMs: LEASE_MS, ...o });
    running.add(relay);
    return relay;
  };
  afterEach(() => Promise.all([...running].map(stop)));
  const append = (...events: NewEvent[]) => appendTo(database.pool, ...events);
  const holders = async () => {
    const { rows } = await database.pool.query<{ count: bigint }>(
      `select count(*) as count from leases where starts_with(name, 'relay/shard/') group by owner`,
    );
    return rows.map((row) => row.count);
  };
  const isEmpty = async () => (await backlogOf(database.pool)).depth === 0;

  test('publishes immediately after the commit, and records that', async () => {
    const memory = rememberingBus();
    // The relay does not poll during the test. A notification starts the read.
    const relay = start(memory.bus, { pollMs: 3_600_000 });
    await relay.flush();
    const key = randomUUID();
    const trace = {
      traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
      tracestate: 'dd=s:1',
    };
    const [id] = await withTraceparent(
      trace.traceparent,
      () => append(testEvent(key, 1n), testEvent(key, 2n)),
      trace.tracestate,
    );
    await until(() => memory.revisions(key).length === 2);
    expect(memory.revisions(key)).toEqual([1n, 2n]);
    expect(memory.published[0]?.headers).toMatchObject({
      event_id: id,
      trigger: 'return.updated',
      ...trace,
    });
    expect(parseEvent(memory.published[0]?.value ?? Buffer.alloc(0))).toMatchObject(trace);
    await relay.flush();
    expect(await isEmpty()).toBe(true);
  });

  test('a rollback publishes no event', async () => {
    const memory = rememberingBus();
    const relay = start(memory.bus);
    const key = randomUUID();
    const failing = inTransaction(database.pool, async (tx) => {
      await appendEvents(tx, [testEvent(key, 1n)]);
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    await relay.flush();
    expect(memory.revisions(key)).toEqual([]);
  });

  test('a row that commits after later ones is published too', async () => {
    const memory = rememberingBus();
    const relay = start(memory.bus);
    const [late, early] = [randomUUID(), randomUUID()];
    const tx = await database.pool.connect();
    await tx.query('begin');
    await appendEvents(tx, [testEvent(late, 1n)]);
    await append(testEvent(early, 1n));
    await until(() => memory.revisions(early).length === 1);
    await relay.flush();
    await tx.query('commit');
    tx.release();
    await until(() => memory.revisions(late).length === 1);
  });

  test('keeps the order of a key with many parallel writers', async () => {
    const memory = rememberingBus();
    start(memory.bus);
    start(memory.bus);
    const { pool } = database;
    const key = `${randomUUID()}`;
    // The lock on this row orders the writers.
    await pool.query(`insert into leases values ($1, 'test', 0, now())`, [key]);
    const write = () =>
      inTransaction(pool, async (tx) => {
        const { rows } = await tx.query<{ token: bigint }>(
          'update leases set token = token + 1 where name = $1 returning token',
          [key],
        );
        await appendEvents(tx, [testEvent(key, rows[0]?.token ?? 0n), testEvent(randomUUID(), 1n)]);
      });
    await Promise.all(Array.from({ length: 60 }, write));
    await until(isEmpty);
    // A relay that cannot renew its lease for seconds may repeat some events; none overtakes another.
    const inOrder = [...new Set(memory.revisions(key))];
    expect(inOrder).toEqual(Array.from({ length: 60 }, (_, n) => BigInt(n + 1)));
  });

  test('two relays share the shards, and publish everything once', async () => {
    const memory = rememberingBus();
    // Long, so that a slow machine keeps the shards: a relay that loses one may repeat events.
    const leaseMs = 60_000;
    const relays = [start(memory.bus, { leaseMs }), start(memory.bus, { leaseMs })];
    await until(async () => (await holders()).join() === '4,4');
    const keys = Array.from({ length: 40 }, () => randomUUID());
    await append(...keys.map((key) => testEvent(key, 1n)));
    await until(isEmpty);
    expect(memory.ids().length).toBe(40);
    expect(new Set(memory.ids()).size).toBe(40);
    await Promise.all(relays.map(stop));
    expect(await holders()).toEqual([]);
  });

  test('a shard moves after its events in flight have arrived, so no event is repeated', async () => {
    const memory = rememberingBus();
    const arrival = Promise.withResolvers<void>();
    memory.control.after = () => arrival.promise;
    start(memory.bus);
    await until(async () => (await holders()).join() === '8');
    const keys = Array.from({ length: 40 }, () => randomUUID());
    await append(...keys.map((key) => testEvent(key, 1n)));
    await until(() => memory.ids().length === 40);
    start(memory.bus);
    // Both know of each other when each has renewed a lease since both are running.
    const renewals = async () => {
      const { rows } = await database.pool.query<{ expires_at: Date }>(
        `select expires_at from leases where starts_with(name, 'relay/process/') order by owner`,
      );
      return rows.map((row) => row.expires_at.getTime());
    };
    await until(async () => (await renewals()).length === 2);
    const before = await renewals();
    await until(async () => (await renewals()).every((at, n) => at > (before[n] ?? 0) + 500));
    arrival.resolve();
    await until(async () => (await holders()).join() === '4,4');
    await until(isEmpty);
    expect(memory.ids().length).toBe(40);
  });

  test('killed between publishing and recording, it repeats events with the same id', async () => {
    const memory = rememberingBus();
    // The acknowledgement never arrives, as if the process had died.
    memory.control.after = () => new Promise(() => {});
    const dying = start(memory.bus);
    const key = randomUUID();
    const [id] = await append(testEvent(key, 1n));
    await until(() => memory.revisions(key).length === 1);
    await stop(dying);
    expect(await isEmpty()).toBe(false);

    memory.control.after = async () => {};
    start(memory.bus);
    await until(isEmpty);
    expect(memory.ids()).toEqual([id, id]);
  });

  test('while the bus is unavailable rows wait, and a key that hangs blocks no other', async () => {
    const memory = rememberingBus();
    const hanging = randomUUID();
    const asked = { hanging: 0, other: 0 };
    memory.control.before = (records) => {
      if (records[0]?.key !== hanging) {
        asked.other += 1;
        return Promise.reject(new Error('unavailable'));
      }
      asked.hanging += 1;
      return new Promise(() => {});
    };
    start(memory.bus);
    const key = randomUUID();
    await append(testEvent(hanging, 1n), testEvent(key, 1n), testEvent(key, 2n));
    await until(() => asked.hanging === 1 && asked.other >= 2);
    expect((await backlogOf(database.pool)).depth).toBe(3);
    memory.control.before = async () => {};
    await until(() => memory.revisions(key).length === 2);
    expect(memory.revisions(key)).toEqual([1n, 2n]);
    await until(async () => (await backlogOf(database.pool)).depth === 1);
  });

  test('metrics show how many events wait and how old they are', async () => {
    await append(testEvent(randomUUID(), 1n));
    const memory = rememberingBus();
    memory.control.before = () => Promise.reject(new Error('unavailable'));
    start(memory.bus);
    // On a slow machine the query for the metric may time out. Then the test repeats it.
    const text = await until(async () => {
      const page = await (await fetch(telemetry.metricsUrl)).text();
      return /^outbox_waiting\{.*topic="t".*\} 1$/m.test(page) && page;
    });
    expect(text).toMatch(/^outbox_oldest_age_seconds/m);
  });

  test('replay publishes a time range again, in order, with the same ids', async () => {
    const memory = rememberingBus();
    const from = new Date(Date.now() - 60_000);
    const key = randomUUID();
    const ids = await append(...[1n, 2n, 3n].map((revision) => testEvent(key, revision)));
    const to = new Date(Date.now() + 60_000);
    await replayEvents({ pool: database.pool, bus: memory.bus, topic: 't', from, to });
    expect(memory.ids().slice(-3)).toEqual(ids);
    const before = memory.ids().length;
    await replayEvents({ pool: database.pool, bus: memory.bus, topic: 't', from, to: from });
    expect(memory.ids().length).toBe(before);
  });
});

describe('events of a service', () => {
  let memory = rememberingBus();
  let publisher: Awaited<ReturnType<typeof startPublisher>>;
  beforeAll(async () => {
    publisher = await startPublisher(database.pool, 't', (...call) => memory.bus.publish(...call));
  });
  afterAll(() => publisher.stop());
  beforeEach(() => {
    memory = rememberingBus();
  });

  const positionsOf = async (ids: readonly string[]) => {
    const { rows } = await database.pool.query<{ position: bigint }>(
      'select position from events where event_id = any ($1) order by position',
      [ids],
    );
    return rows.map(({ position }) => position);
  };

  test('are published again as they are stored, in order whatever the order of the request', async () => {
    const key = randomUUID();
    const ids = await appendTo(database.pool, testEvent(key, 1n), testEvent(key, 2n));
    const positions = await positionsOf(ids);
    const answer = await publisher.client.publishAgain({ positions: positions.toReversed() });
    expect(answer.published).toBe(2);
    expect(memory.ids()).toEqual(ids);
    expect(memory.revisions(key)).toEqual([1n, 2n]);
    expect(memory.published[0]?.headers).toMatchObject({ event_id: ids[0] });
  });

  test('are skipped when they are no longer stored', async () => {
    const ids = await appendTo(database.pool, testEvent(randomUUID()));
    const positions = [...(await positionsOf(ids)), 10n ** 12n];
    expect((await publisher.client.publishAgain({ positions })).published).toBe(1);
    expect(memory.ids()).toEqual(ids);
  });

  test('are UNAVAILABLE while the bus is', async () => {
    const positions = await positionsOf(await appendTo(database.pool, testEvent(randomUUID())));
    memory.control.before = () => Promise.reject(new Error('no broker'));
    const call = publisher.client.publishAgain({ positions });
    await expect(call).rejects.toMatchObject({ code: Code.Unavailable });
  });

  test('are requested by 1 to 200 positions', async () => {
    for (const positions of [[], [0n], Array.from({ length: 201 }, (_, n) => BigInt(n + 1))]) {
      const call = publisher.client.publishAgain({ positions });
      await expect(call).rejects.toMatchObject({ code: Code.InvalidArgument });
    }
  });

  test.each(['1.2', '0.0.0.0.0.0.0.x', '-1.0.0.0.0.0.0.0'])(
    'are not listed after the cursor %s',
    async (cursor) => {
      const call = publisher.client.listPublished({ cursor });
      await expect(call).rejects.toMatchObject({ code: Code.InvalidArgument });
    },
  );
});

describe('model', () => {
  const RUNS = 60;
  const OPERATIONS = 60;
  const MOST_OPEN = 4;
  /** Small, so that pages are always cut. */
  const SMALL = { events: 4, bytes: 300 };

  /** Pseudo-random numbers from 0 to below 1, by seed. */
  function random(seed: number): () => number {
    let state = seed;
    return () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state / 2 ** 32;
    };
  }

  interface Open {
    readonly tx: pg.PoolClient;
    /** Each key changes under its own lock, so no two open transactions share a key. */
    readonly appended: { key: string; id: string }[];
  }

  /** A bus that acknowledges when the run tells it to, and sometimes rejects records that it may have stored. */
  function whimsicalBus(chance: () => number) {
    const memory = rememberingBus();
    const pending: (() => void)[] = [];
    let isCalm = false;
    const publish = async (topic: string, records: readonly BusRecord[]) => {
      const whim = isCalm ? 1 : chance();
      if (whim < 0.1) throw new Error('refused');
      if (whim < 0.5) await new Promise<void>((done) => pending.push(done));
      await memory.bus.publish(topic, records);
      if (whim < 0.2) throw new Error('the answer is lost');
    };
    const answer = () => pending.splice(Math.floor(chance() * pending.length), 1)[0]?.();
    const calm = () => {
      isCalm = true;
      for (const done of pending.splice(0)) done();
    };
    return { bus: { publish }, ids: memory.ids, answer, calm };
  }

  class Run {
    readonly #pool: pg.Pool;
    readonly #chance: () => number;
    readonly #run: number;
    readonly bus: ReturnType<typeof whimsicalBus>;
    readonly #open: Open[] = [];
    /** Ids in the order of commits, by key. */
    readonly committed = new Map<string, string[]>();
    /** Two relays that both act as if they owned all shards. */
    readonly #relays: Publisher[];

    constructor(pool: pg.Pool, run: number) {
      this.#pool = pool;
      this.#run = run;
      this.#chance = random(run);
      this.bus = whimsicalBus(this.#chance);
      this.#relays = [this.#relay(), this.#relay()];
    }

    #relay(): Publisher {
      return publisherOn(this.#pool, this.bus.bus, SMALL);
    }

    #below(count: number): number {
      return Math.floor(this.#chance() * count);
    }

    async #begin(): Promise<Open> {
      const tx = await this.#pool.connect();
      await tx.query('begin');
      const open = { tx, appended: [] };
      this.#open.push(open);
      return open;
    }

    async #append(): Promise<void> {
      const isNew =
        this.#open.length === 0 || (this.#open.length < MOST_OPEN && this.#chance() < 0.5);
      const open = isNew ? await this.#begin() : this.#open[this.#below(this.#open.length)];
      const key = `${this.#run}:${this.#below(6)}`;
      const holder = this.#open.find(({ appended }) => appended.some((one) => one.key === key));
      if (!open || (holder && holder !== open)) return;
      const count = this.#chance() < 0.1 ? 12 : 1 + this.#below(2);
      const ids = await appendEvents(
        open.tx,
        Array.from({ length: count }, () => testEvent(key)),
      );
      open.appended.push(...ids.map((id) => ({ key, id })));
    }

    async #end(isCommitted: boolean): Promise<void> {
      const [open] = this.#open.splice(this.#below(this.#open.length), 1);
      if (!open) return;
      await open.tx.query(isCommitted ? 'commit' : 'rollback');
      open.tx.release();
      if (!isCommitted) return;
      for (const { key, id } of open.appended) {
        this.committed.set(key, [...(this.committed.get(key) ?? []), id]);
      }
    }

    async #step(): Promise<void> {
      const relay = this.#relays[this.#below(2)];
      relay?.notify([0, 1, 2, 3, 4, 5, 6, 7]);
      await relay?.step(this.#chance() < 0.5);
      await new Promise(setImmediate);
    }

    async operate(): Promise<void> {
      const choice = this.#chance();
      if (choice < 0.3) await this.#append();
      else if (choice < 0.45) await this.#end(this.#chance() < 0.8);
      else if (choice < 0.8) await this.#step();
      else if (choice < 0.9) this.bus.answer();
      else if (choice < 0.95) advanceClock(3_000);
      else this.#relays[this.#below(2)] = this.#relay();
    }

    /** All transactions end, and one of the relays that ran publishes what is left. */
    async quiet(): Promise<void> {
      while (this.#open.length > 0) await this.#end(true);
      this.bus.calm();
      await Promise.all(this.#relays.map((relay) => relay.finished()));
      advanceClock(3_000);
      await drain(this.#relays[this.#below(2)] ?? this.#relay());
    }
  }
  afterEach(restoreClock);

  test('with late commits, crashes and rejections every committed event is published, each key in order', async () => {
    for (let nth = 1; nth <= RUNS; nth += 1) {
      await database.pool.query(ALL_PUBLISHED);
      const run = new Run(database.pool, nth);
      for (let done = 0; done < OPERATIONS; done += 1) await run.operate();
      await run.quiet();
      const first = [...new Set(run.bus.ids())];
      for (const [key, ids] of run.committed) {
        const published = first.filter((id) => ids.includes(id));
        expect({ seed: nth, key, published }).toEqual({ seed: nth, key, published: ids });
      }
      const all = [...run.committed.values()].flat();
      expect({ seed: nth, published: first.length }).toEqual({ seed: nth, published: all.length });
      expect((await backlogOf(database.pool)).depth).toBe(0);
      restoreClock();
    }
  });
});
