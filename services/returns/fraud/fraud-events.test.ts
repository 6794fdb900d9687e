import { randomUUID } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { ALL_PUBLISHED, appendTo, testEvent } from '../../../test/kit/events/outbox.ts';
import { startPublisher } from '../../../test/kit/events/publisher.ts';
import {
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { inTransaction } from '../../platform/postgres/postgres.ts';
import { purge } from '../retention/purge.ts';
import { noteReports } from './fraud-events.ts';

describe('fraud events', () => {
  let bench: ReturnsBench;
  beforeAll(async () => {
    bench = await startReturnsBench();
  });
  afterAll(() => bench.stop());

  function reportOn(of: Pick<Return, 'shopId' | 'id'>) {
    return create(EventSchema, {
      eventId: randomUUID(),
      schema: 'rms.events.v1',
      trigger: 'fraud_report.created',
      shopId: of.shopId,
      returnId: of.id,
      occurredAt: timestampNow(),
      actor,
      detail: { case: 'fraudReport', value: { reportId: 7n, category: 'item-is-worn' } },
    });
  }

  const kinds = async (of: Return) => (await bench.timeline(of)).map((entry) => entry.kind);

  describe('a new fraud report', () => {
    test('is consumed from the bus and appears once in the timeline, also when it is delivered again', async () => {
      const submitted = await bench.submit(await bench.shop());
      const event = reportOn(submitted);
      const record = { key: 'k', value: toBinary(EventSchema, event), headers: {} };
      await bench.bus.publish('rms.fraud.events.v1', [record]);
      await bench.bus.publish('rms.fraud.events.v1', [record]);
      await until(async () => (await kinds(submitted)).includes('fraud_report.created'));
      const entries = await bench.timeline(submitted);
      expect(entries).toHaveLength(2);
      expect(present(entries[1]).facts).toEqual({ report_id: '7', category: 'item-is-worn' });
      expect(await bench.triggers(submitted)).toEqual([]);
      const { shopId, id } = submitted;
      const other = await bench.submit(shopId);
      const found = await bench.client.searchReturns({ shopId, actor, fraudReportedOnly: true });
      expect([found.returns.map((one) => one.id), found.fraudReportedIds]).toEqual([[id], [id]]);
      const all = await bench.client.searchReturns({ shopId, actor });
      expect(all.returns.map((one) => one.id)).toEqual([other.id, id]);
      expect(all.fraudReportedIds).toEqual([id]);
    });

    test('about a return that does not exist is skipped', async () => {
      const submitted = await bench.submit(await bench.shop());
      const absent = reportOn({ shopId: submitted.shopId, id: 999_999_998n });
      await inTransaction(bench.db.pool, (tx) => noteReports(tx, [absent, reportOn(submitted)]));
      expect(await kinds(submitted)).toContain('fraud_report.created');
    });
  });

  describe('purge', () => {
    test('removes timeline entries after 400 days and snapshots after the events, no others', async () => {
      const submitted = await bench.submit(await bench.shop());
      const { shopId, id: returnId } = submitted;
      for (const text of ['old', 'young']) {
        await bench.client.addNote({ shopId, actor, returnId, text });
      }
      await bench.db.pool.query(
        `update timeline
          set occurred_at = now() - case text when 'old' then 401 else 399 end * interval '1 day'
        where shop_id = $1 and text in ('old', 'young')`,
        [shopId],
      );
      await bench.db.pool.query(
        `insert into snapshots (shop_id, return_id, revision, value, created_at)
       values ($1, $2, 1, '', now() - interval '10 days'), ($1, $2, 2, '', now() - interval '6 days')`,
        [shopId, returnId],
      );
      expect(await purge(bench.db.pool, 7)).toBe(2);
      const texts = (await bench.timeline(submitted)).map((entry) => entry.text);
      expect(texts).toContain('young');
      expect(texts).not.toContain('old');
      const left = await bench.db.pool.query('select revision from snapshots where shop_id = $1', [
        shopId,
      ]);
      expect(left.rows).toEqual([{ revision: 2n }]);
    });
  });
});

describe('lost fraud events', () => {
  const TOPIC = 'rms.fraud.events.v1';

  let fraud: TestDatabase;
  let publisher: Awaited<ReturnType<typeof startPublisher>>;
  let bench: ReturnsBench;
  const started = Promise.withResolvers<ReturnsBench>();
  let ids: string[];

  beforeAll(async () => {
    fraud = await createTestDatabase('fraud');
    ids = await appendTo(fraud.pool, testEvent(randomUUID()), testEvent(randomUUID()));
    // As if the bus had lost them.
    await fraud.pool.query(ALL_PUBLISHED);
    publisher = await startPublisher(fraud.pool, TOPIC, async (topic, records) => {
      const { bus } = await started.promise;
      await bus.publish(topic, records);
    });
    bench = await startReturnsBench({ FRAUD_TARGET: publisher.target });
    started.resolve(bench);
  });
  afterAll(async () => {
    await bench.stop();
    await publisher.stop();
    await fraud.drop();
  });

  test('events of the fraud service that the bus lost are handled, and counted', async () => {
    await until(async () => {
      const { rows } = await bench.db.pool.query<{ event_id: string }>(
        `select event_id from consumed_events where consumer = 'returns'`,
      );
      return ids.every((id) => rows.some((row) => row.event_id === id));
    });
    const metrics = () => fetch(bench.metricsUrl).then((answer) => answer.text());
    await until(async () =>
      /^events_republished_total\{group="returns".* 2$/m.test(await metrics()),
    );
    expect(await metrics()).toMatch(
      /^events_missing_oldest_age_seconds\{group="returns".* [\d.e-]+$/m,
    );
  });
});
