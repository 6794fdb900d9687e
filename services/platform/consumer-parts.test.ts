import { randomUUID } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { EventSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { silentLogger, testTelemetry } from '../../test/kit/services/telemetry.ts';
import type { BusRecord, EventBus } from './bus/event-bus.ts';
import { createInProcessBus } from './bus/in-process.ts';
import { type ConsumeOptions, consumeEvents } from './consumer.ts';
import type { Telemetry } from './telemetry.ts';
import type { Worker } from './worker.ts';

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

describe('a batch in parts', () => {
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
