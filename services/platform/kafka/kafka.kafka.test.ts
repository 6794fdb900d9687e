import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Kafka, logLevel } from 'kafkajs';
import { type LocalKafka, startKafka } from '../../../deploy/local/kafka/start.ts';
import { busContract } from '../../../test/kit/events/bus-contract.ts';
import { silentLogger } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import { eventsTopic } from '../bus/event-bus.ts';
import { createLogger } from '../telemetry/log.ts';
import { createKafkaBus } from './kafka.ts';

describe('kafka', () => {
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
    const subscription = await bus.subscribe({
      group,
      topics: [topic],
      handle: () => open.promise,
    });
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
});

describe('topics', () => {
  const folder = mkdtempSync(join(tmpdir(), 'rms-kafka-topics-'));
  let kafka: LocalKafka;
  beforeAll(async () => {
    kafka = await startKafka({ folder });
  });
  afterAll(async () => {
    await kafka?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const topics = async (...args: string[]) => {
    const command = ['services/platform/bus/topics.ts', ...args];
    const env = { PATH: process.env.PATH, KAFKA_BROKERS: kafka.brokers.join(',') };
    return (await promisify(execFile)(process.execPath, command, { env })).stdout;
  };

  test('without the right to create topics events wait for the command that creates them', async () => {
    const bus = createKafkaBus({
      brokers: kafka.brokers,
      clientId: 'test',
      logger: silentLogger(),
      retentionDays: 1,
      createsTopics: false,
    });
    const topic = eventsTopic('returns');
    const records = [{ key: 'k', value: Buffer.from('text'), headers: {} }];
    await expect(bus.publish(topic, records)).rejects.toThrow(
      `Kafka has no topic ${topic}, and KAFKA_TOPICS=check`,
    );

    const listed = await topics();
    expect(listed).toContain(`${topic} partitions=12 retention.ms=604800000 max.message.bytes=`);
    expect(await topics('--create')).toBe('6 topic(s) created, 0 existed\n');
    expect(await topics('--create')).toBe('0 topic(s) created, 6 existed\n');

    await bus.publish(topic, records);
    await bus.close();
  });
});

describe('session time', () => {
  const PATIENCE_MS = 30_000;
  const succeeds = () => true;
  const fails = () => false;

  const folder = mkdtempSync(join(tmpdir(), 'rms-kafka-'));
  let kafka: LocalKafka;

  beforeAll(async () => {
    // Kafka's default.
    kafka = await startKafka({ folder, settings: { 'group.min.session.timeout.ms': 6_000 } });
  });
  afterAll(async () => {
    await kafka?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('brokers that reject a short session are read with a longer one, and it is logged once', async () => {
    const lines: string[] = [];
    const destination = { write: (line: string) => lines.push(line) };
    const logger = createLogger({ service: 'test', level: 'warn', destination });
    const bus = createKafkaBus({
      brokers: kafka.brokers,
      clientId: 'test',
      logger,
      retentionDays: 1,
    });
    const topic = `test.${randomUUID()}`;
    const received: string[] = [];
    const record = { key: 'key', value: Buffer.from('1'), headers: {} };
    // A new topic may have no leader yet.
    await until(() => bus.publish(topic, [record]).then(succeeds, fails), PATIENCE_MS);
    for (const name of ['first', 'second']) {
      await bus.subscribe({
        group: `${name}-${randomUUID()}`,
        topics: [topic],
        handle: async () => {
          received.push(name);
        },
      });
      await until(() => received.includes(name), PATIENCE_MS);
    }
    await bus.close();
    const logged = lines.filter((line) => line.includes('group.min.session.timeout.ms'));
    expect(logged).toEqual([expect.stringContaining('group.min.session.timeout.ms=2000')]);
  });
});
