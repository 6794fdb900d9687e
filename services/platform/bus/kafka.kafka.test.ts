import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Kafka, logLevel } from 'kafkajs';
import { type LocalKafka, startKafka } from '../../../deploy/local/kafka/start.ts';
import { busContract } from '../../../test/kit/events/bus-contract.ts';
import { silentLogger } from '../../../test/kit/services/telemetry.ts';
import { createKafkaBus } from './kafka.ts';

const folder = mkdtempSync(join(tmpdir(), 'rms-kafka-'));
let kafka: LocalKafka;

beforeAll(async () => {
  kafka = await startKafka({ folder });
});
afterAll(async () => {
  await kafka?.stop();
  rmSync(folder, { recursive: true, force: true });
});

busContract('kafka', async () =>
  createKafkaBus({
    brokers: kafka.brokers,
    clientId: 'test',
    logger: silentLogger(),
    retentionDays: 1,
  }),
);

test('event bus: kafka reports whether a group has read all remaining records of a topic', async () => {
  const [topic, group] = [`test.${randomUUID()}`, `test-${randomUUID()}`];
  const bus = createKafkaBus({
    brokers: kafka.brokers,
    clientId: 'test',
    logger: silentLogger(),
    retentionDays: 1,
  });
  const records = Array.from({ length: 20 }, (_, n) => {
    return { key: `k${n}`, value: Buffer.from('text'), headers: {} };
  });
  const atOnce = () => bus.hasCaughtUp(group, topic, AbortSignal.abort());
  const inTime = () => bus.hasCaughtUp(group, topic, new AbortController().signal);
  const open = Promise.withResolvers<void>();
  await bus.publish(topic, records);
  const subscription = await bus.subscribe({ group, topics: [topic], handle: () => open.promise });
  expect(await atOnce()).toBe(false);
  open.resolve();
  expect(await inTime()).toBe(true);
  await subscription.stop();

  await bus.publish(topic, records);
  expect(await atOnce()).toBe(false);
  const client = new Kafka({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING });
  const admin = client.admin();
  await admin.connect();
  const partitions = await admin.fetchTopicOffsets(topic);
  const full = partitions.filter(({ low, high }) => low !== high);
  await admin.deleteTopicRecords({ topic, partitions: full });
  expect(await inTime()).toBe(true);
  await admin.disconnect();
  await bus.close();
});
