import { randomUUID } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { silentLogger, testTelemetry } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import type { BusRecord, EventBus, ReceivedRecord } from '../bus/event-bus.ts';
import { createInProcessBus } from '../bus/in-process.ts';
import type { Worker } from '../process/worker.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { type ConsumeOptions, consumeEvents } from './consumer.ts';
import { createRecordFailures } from './poison.ts';

describe('a batch in parts', () => {
  /** A record of the only key. */
  function recordOf(trigger: string): BusRecord {
    const event = create(EventSchema, {
      eventId: randomUUID(),
      schema: 'rms.events.v1',
      trigger,
      shopId: 1n,
    });
    return { key: '1:1', value: toBinary(EventSchema, event), headers: {} };
  }

  let database: TestDatabase;
  let telemetry: Telemetry;
  let bus: EventBus;
  let worker: Worker;
  let handled: string[];

  beforeAll(async () => {
    database = await createTestDatabase('webhooks');
    telemetry = await testTelemetry();
  });
  afterAll(async () => {
    await telemetry.stop();
    await database.drop();
  });
  beforeEach(() => {
    bus = createInProcessBus({ backoff: () => 5 });
    handled = [];
  });
  afterEach(async () => {
    await worker.stop();
    await bus.close();
  });

  const consume = (o: Pick<ConsumeOptions, 'inParts'>) =>
    consumeEvents({
      ...o,
      bus,
      pool: database.pool,
      group: 'test',
      topics: ['t'],
      logger: silentLogger(),
      telemetry,
      retentionDays: 7,
      recordPausesMs: [1, 1],
      handle: async (_tx, events) => {
        if (events.some(({ trigger }) => trigger === 'bad')) throw new Error('bad');
        handled.push(...events.map(({ trigger }) => trigger));
      },
    });

  test('continues after its last committed part when the process stops', async () => {
    const stopping = Promise.withResolvers<void>();
    worker = await consume({
      async *inParts(events) {
        yield events.slice(0, 1);
        worker.stop().then(stopping.resolve, stopping.reject);
        throw new ConnectError('stopped', Code.Unavailable);
      },
    });
    const published = bus.publish('t', ['a', 'b', 'c'].map(recordOf));
    await stopping.promise;
    expect(handled).toEqual(['a']);
    worker = await consume({});
    await published;
    expect(handled).toEqual(['a', 'b', 'c']);
  });

  test('stays in order when a part contains a bad record', async () => {
    worker = await consume({
      async *inParts(events) {
        yield events.slice(0, 2);
        if (events.length > 2) yield events.slice(2);
      },
    });
    await bus.publish('t', ['a', 'b', 'c', 'bad', 'd'].map(recordOf));
    expect(handled).toEqual(['a', 'b', 'c', 'd']);
    const { rows } = await database.pool.query('select from poison_records');
    expect(rows).toHaveLength(1);
  });
});

describe('a record that fails', () => {
  function recordOf(trigger: string, key: string): BusRecord {
    const event = create(EventSchema, {
      eventId: randomUUID(),
      schema: 'rms.events.v1',
      trigger,
      shopId: 1n,
    });
    return { key, value: toBinary(EventSchema, event), headers: {} };
  }

  let database: TestDatabase;
  let telemetry: Telemetry;
  let bus: EventBus;
  let worker: Worker;
  let handled: string[];
  /** Throws for triggers that cannot be handled. */
  let check: (trigger: string) => void;

  beforeAll(async () => {
    database = await createTestDatabase('webhooks');
    telemetry = await testTelemetry();
  });
  afterAll(async () => {
    await telemetry.stop();
    await database.drop();
  });
  beforeEach(() => {
    bus = createInProcessBus({ backoff: () => 5 });
    handled = [];
  });
  afterEach(async () => {
    await worker.stop();
    await bus.close();
  });

  const consume = (recordPausesMs: readonly number[]) =>
    consumeEvents({
      bus,
      pool: database.pool,
      group: 'test',
      topics: ['t'],
      logger: silentLogger(),
      telemetry,
      retentionDays: 7,
      recordPausesMs,
      handle: async (_tx, events) => {
        for (const { trigger } of events) check(trigger);
        handled.push(...events.map(({ trigger }) => trigger));
      },
    });
  const poison = async () => (await database.pool.query('select from poison_records')).rows.length;

  test('its key waits for its next try while other keys continue; a stop ends the wait', async () => {
    worker = await consume([600_000]);
    let tries = 0;
    check = (trigger) => {
      if (trigger !== 'bad') return;
      tries += 1;
      throw new Error('bad');
    };
    const records = ['before', 'bad', 'after'].map((trigger) => recordOf(trigger, '1:1'));
    bus.publish('t', records).catch(() => {});
    // Once with the other records of its key, then alone.
    await until(() => tries === 2);
    await bus.publish('t', [recordOf('other', '1:2')]);
    expect(handled).toEqual(['before', 'other']);
    expect(await poison()).toBe(0);
    await worker.stop();
    expect(tries).toBe(2);
  });

  test('does not become poison while many other keys fail in a row, and is handled afterwards', async () => {
    worker = await consume([1_000, 1_000]);
    let tries = 0;
    check = () => {
      tries += 1;
      if (tries < 200) throw new Error('a bug that every record meets');
    };
    const keys = Array.from({ length: 12 }, (_, n) => `1:${n}`);
    const records = keys.map((key) => recordOf(key, key));
    await bus.publish('t', records);
    expect(handled.toSorted()).toEqual(keys.toSorted());
    expect(await poison()).toBe(0);
  });
});

describe('failures of records', () => {
  function recordOf(key: string, position = key): ReceivedRecord {
    return { topic: 't', key, position, value: new Uint8Array(), headers: {} };
  }

  test('one record is tried three times, after growing pauses', () => {
    const failures = createRecordFailures();
    const record = recordOf('a');
    expect(failures.attempts).toBe(3);
    expect(failures.note(record)).toEqual({ pauseMs: 2_000 });
    expect(failures.note(record)).toEqual({ pauseMs: 8_000 });
    expect(failures.note(record)).toBe('poison');
  });

  test('many keys in a row are an outage, which does not count as a try', () => {
    const failures = createRecordFailures([1]);
    for (const key of ['a', 'b', 'c', 'd'])
      expect(failures.note(recordOf(key))).toEqual({ pauseMs: 1 });
    expect(failures.note(recordOf('e'))).toBe('outage');
    for (let n = 0; n < 10; n += 1) expect(failures.note(recordOf('a'))).toBe('outage');
    failures.noteSuccess();
    // The second counted failure.
    expect(failures.note(recordOf('a'))).toBe('poison');
  });

  test('many records of one key are not an outage', () => {
    const failures = createRecordFailures([1]);
    for (let n = 0; n < 10; n += 1) {
      expect(failures.note(recordOf('a', `0/${n}`))).toEqual({ pauseMs: 1 });
    }
  });

  test('a success between failing keys ends the row', () => {
    const failures = createRecordFailures([1]);
    for (let n = 0; n < 20; n += 1) {
      expect(failures.note(recordOf(String(n)))).toEqual({ pauseMs: 1 });
      failures.noteSuccess();
    }
  });
});
