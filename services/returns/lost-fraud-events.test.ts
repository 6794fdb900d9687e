import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { ALL_PUBLISHED, appendTo, testEvent } from '../../test/kit/events/outbox.ts';
import { startPublisher } from '../../test/kit/events/publisher.ts';
import { type ReturnsBench, startReturnsBench } from '../../test/kit/services/returns-bench.ts';
import { until } from '../../test/kit/until.ts';

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
  await until(async () => /^events_republished_total\{group="returns".* 2$/m.test(await metrics()));
  expect(await metrics()).toMatch(
    /^events_missing_oldest_age_seconds\{group="returns".* [\d.e-]+$/m,
  );
});
