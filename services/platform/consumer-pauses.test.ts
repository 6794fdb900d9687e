import { randomUUID } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { EventSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { silentLogger, testTelemetry } from '../../test/kit/services/telemetry.ts';
import { until } from '../../test/kit/until.ts';
import type { BusRecord, EventBus } from './bus/event-bus.ts';
import { createInProcessBus } from './bus/in-process.ts';
import { consumeEvents } from './consumer.ts';
import type { Telemetry } from './telemetry.ts';
import type { Worker } from './worker.ts';

function recordOf(trigger: string, key: string): BusRecord {
  const event = create(EventSchema, {
    eventId: randomUUID(),
    schema: 'rms.events.v1',
    trigger,
    shopId: 1n,
  });
  return { key, value: toBinary(EventSchema, event), headers: {} };
}

describe('a record that fails', () => {
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
