import { randomUUID } from 'node:crypto';
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { type Event, EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { silentLogger, testTelemetry } from '../../../test/kit/services/telemetry.ts';
import type { BusRecord, EventBus } from '../bus/event-bus.ts';
import { createInProcessBus } from '../bus/in-process.ts';
import type { Worker } from '../process/worker.ts';
import { currentTraceparent, currentTracestate, type Telemetry } from '../telemetry/telemetry.ts';
import { consumeEvents } from './consumer.ts';
import { replayPoison, storePoison } from './poison.ts';

const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

function recordOf(trigger: string, fields: MessageInitShape<typeof EventSchema> = {}): BusRecord {
  const event = create(EventSchema, {
    eventId: randomUUID(),
    schema: 'rms.events.v1',
    trigger,
    shopId: 1n,
    ...fields,
  });
  return { key: '1:1', value: toBinary(EventSchema, event), headers: {} };
}

describe('consume events', () => {
  let database: TestDatabase;
  let telemetry: Telemetry;
  let bus: EventBus;
  let worker: Worker;
  let seen: string[];
  /** Effect of the handler. Triggers count as seen only if it resolves. */
  let behave: (tx: pg.PoolClient, event: Event) => Promise<void>;

  beforeAll(async () => {
    database = await createTestDatabase('webhooks');
    telemetry = await testTelemetry();
  });
  afterAll(async () => {
    await telemetry.stop();
    await database.drop();
  });
  beforeEach(async () => {
    await database.pool.query('delete from poison_records');
    [seen, behave] = [[], async () => {}];
    bus = createInProcessBus({ backoff: () => 5 });
    worker = await consumeEvents({
      bus,
      pool: database.pool,
      group: 'test',
      topics: ['t'],
      logger: silentLogger(),
      telemetry,
      retentionDays: 7,
      recordPausesMs: [1, 1],
      handle: async (tx, events) => {
        for (const event of events) await behave(tx, event);
        seen.push(...events.map((event) => event.trigger));
      },
    });
  });
  afterEach(async () => {
    await worker.stop();
    await bus.close();
  });

  const poison = async () => {
    const { rows } = await database.pool.query(
      'select id, reason, attempts, key from poison_records order by id',
    );
    return rows;
  };
  const breakConstraint = (tx: pg.PoolClient) =>
    tx.query(`insert into leases (name, owner, token, expires_at) values ('', 'x', 1, now())`);

  test('handles every event once, however often it arrives', async () => {
    const record = recordOf('a');
    await bus.publish('t', [record, recordOf('b'), record]);
    await bus.publish('t', [record]);
    expect(seen).toEqual(['a', 'b']);
  });

  test('the effect and the memory of the event are one transaction', async () => {
    const record = recordOf('a');
    let failures = 0;
    behave = async (tx) => {
      await tx.query(`insert into leases values ($1, 'x', 1, now())`, [`effect-${failures}`]);
      failures += 1;
      if (failures < 3) throw new Error('not yet');
    };
    await bus.publish('t', [record]);
    const { rows } = await database.pool.query(
      `select name from leases where starts_with(name, 'effect-')`,
    );
    expect(rows).toEqual([{ name: 'effect-2' }]);
    expect(seen).toEqual(['a']);
  });

  test('a record that does not parse becomes poison, and other records are handled', async () => {
    const broken: BusRecord = { key: '1:1', value: Buffer.from([0xff, 0xff]), headers: {} };
    await bus.publish('t', [recordOf('a'), broken, recordOf('b')]);
    expect(seen).toEqual(['a', 'b']);
    expect(await poison()).toMatchObject([{ key: '1:1', attempts: 3 }]);
  });

  test('two bad records at one position both become poison records', async () => {
    const record = { topic: 't', position: '3/17', key: '1:1', headers: {} };
    for (const value of [Buffer.from('one'), Buffer.from('two'), Buffer.from('two')]) {
      const error = new Error('no event');
      const o = { consumer: 'test', record: { ...record, value }, error, attempts: 3 };
      await storePoison(database.pool, o);
    }
    expect(await poison()).toHaveLength(2);
  });

  test('a record with text that PostgreSQL cannot store still becomes a poison record', async () => {
    const value = Buffer.from([0xff, 0xff]);
    const headers = { 'a\0b': 'c\0' };
    await bus.publish('t', [{ key: '\0\0\0\u0001', value, headers }, recordOf('a')]);
    expect(await poison()).toMatchObject([{ key: '\uFFFD\uFFFD\uFFFD\u0001' }]);
    expect(seen).toEqual(['a']);
  });

  test.each([253_402_300_800n, -62_135_596_801n, 2n ** 60n])(
    'an event with an invalid time (%d s) can become a poison record',
    async (seconds) => {
      behave = (tx) => breakConstraint(tx).then(() => {});
      await bus.publish('t', [recordOf('a', { occurredAt: { seconds, nanos: 0 } })]);
      expect(await poison()).toHaveLength(1);
    },
  );

  test.each([
    ['another schema', { schema: 'rms.events.v2' }],
    ['no id', { eventId: 'x' }],
    ['no shop', { shopId: 0n }],
  ])('a record with %s becomes poison', async (_, fields) => {
    await bus.publish('t', [recordOf('a', fields)]);
    expect(await poison()).toHaveLength(1);
    expect(seen).toEqual([]);
  });

  test('a record that violates a constraint becomes poison after three tries', async () => {
    let tries = 0;
    behave = async (tx, event) => {
      if (event.trigger !== 'bad') return;
      tries += 1;
      await breakConstraint(tx);
    };
    const bad = recordOf('bad');
    await bus.publish('t', [recordOf('a'), bad, recordOf('b')]);
    expect(seen).toEqual(['a', 'b']);
    // Once in the batch, then three times alone.
    expect(tries).toBe(4);
    expect(await poison()).toMatchObject([
      { attempts: 3, reason: expect.stringContaining('check') },
    ]);

    // A poison record counts as handled: a repetition is not tried again.
    await bus.publish('t', [bad]);
    expect(tries).toBe(4);
  });

  test('poison records can be replayed, and become poison again when they fail again', async () => {
    behave = (tx) => breakConstraint(tx).then(() => {});
    await bus.publish('t', [recordOf('late')]);
    const [first] = await poison();
    const replay = () => replayPoison({ pool: database.pool, bus, consumer: 'test' });

    expect(await replay()).toBe(1);
    const [second, ...others] = await poison();
    expect(second).toMatchObject({ reason: first?.reason });
    expect(second?.id).not.toBe(first?.id);
    expect(others).toEqual([]);

    behave = async () => {};
    expect(await replay()).toBe(1);
    expect(seen).toEqual(['late']);
    expect(await poison()).toEqual([]);
  });

  test.each([
    ['before it published', async () => {}],
    ['after it published', (publish: () => Promise<void>) => publish()],
  ])('a replay that was cut off %s is run again, with one effect', async (_, before) => {
    behave = (tx) => breakConstraint(tx).then(() => {});
    await bus.publish('t', [recordOf('late')]);
    behave = async () => {};
    const cutOff: EventBus = {
      ...bus,
      async publish(topic, records) {
        await before(() => bus.publish(topic, records));
        throw new Error('cut off');
      },
    };
    const replay = (by: EventBus) =>
      replayPoison({ pool: database.pool, bus: by, consumer: 'test' });
    await expect(replay(cutOff)).rejects.toThrow('cut off');
    expect(await replay(bus)).toBe(1);
    expect(seen).toEqual(['late']);
    expect(await poison()).toEqual([]);
  });

  test('a replay processes any number of poison records once', async () => {
    behave = (tx) => breakConstraint(tx).then(() => {});
    await bus.publish(
      't',
      Array.from({ length: 45 }, (_, n) => recordOf(`late ${n}`)),
    );
    expect(await replayPoison({ pool: database.pool, bus, consumer: 'test' })).toBe(45);
    expect(await poison()).toHaveLength(45);
  });

  test('an outage counts no try: the bus passes the batch again until it succeeds', async () => {
    let outages = 0;
    behave = async (tx) => {
      if (outages >= 5) return;
      outages += 1;
      await tx.query(`set local statement_timeout = 5`);
      await tx.query('select pg_sleep(1)');
    };
    await bus.publish('t', [recordOf('a')]);
    expect(outages).toBe(5);
    expect(seen).toEqual(['a']);
    expect(await poison()).toEqual([]);
  });

  test('a lost connection counts no try', async () => {
    let losses = 0;
    behave = async (tx) => {
      if (losses >= 3) return;
      losses += 1;
      await tx.query('select pg_terminate_backend(pg_backend_pid())');
    };
    await bus.publish('t', [recordOf('a')]);
    expect(losses).toBe(3);
    expect(seen).toEqual(['a']);
    expect(await poison()).toEqual([]);
  });

  test('a lost grant counts no try, and the event is handled after it is granted again', async () => {
    const migrator = new pg.Client({ connectionString: database.migratorUrl });
    await migrator.connect();
    await migrator.query('revoke insert on webhooks.leases from rms_webhooks');
    let refusals = 0;
    behave = async (tx) => {
      refusals += 1;
      if (refusals === 5) await migrator.query('grant insert on webhooks.leases to rms_webhooks');
      await tx.query(`insert into leases values ('granted again', 'x', 1, now())`);
    };
    await bus.publish('t', [recordOf('a')]);
    await migrator.end();
    expect(seen).toEqual(['a']);
    expect(await poison()).toEqual([]);
  });

  test('a single event is handled within its trace', async () => {
    let trace: string[] = [];
    behave = async () => {
      trace = [currentTraceparent(), currentTracestate()];
    };
    await bus.publish('t', [recordOf('a', { traceparent: TRACEPARENT, tracestate: 'dd=s:1' })]);
    expect(trace).toEqual([TRACEPARENT, 'dd=s:1']);
  });

  test.each([
    ['no time', undefined],
    ['a time far back', timestampFromDate(new Date('2001-01-01T00:00:00Z'))],
    ['a time after midnight', timestampFromDate(new Date(Date.now() + 86_400_000))],
  ])('an event with %s has its effect once', async (_, occurredAt) => {
    const record = recordOf('a', occurredAt ? { occurredAt } : {});
    await bus.publish('t', [record]);
    await bus.publish('t', [record]);
    expect(seen).toEqual(['a']);
    expect(await poison()).toEqual([]);
  });

  test('an event of newer code is handled: unknown fields are skipped', async () => {
    const known = recordOf('trigger.of.tomorrow');
    // Field 90, a string, at the end of the message.
    const unknown = Buffer.from([0xd2, 0x05, 0x03, 0x6e, 0x65, 0x77]);
    await bus.publish('t', [{ ...known, value: Buffer.concat([known.value, unknown]) }]);
    expect(seen).toEqual(['trigger.of.tomorrow']);
    expect(await poison()).toEqual([]);
  });
});
