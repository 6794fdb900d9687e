import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type LocalKafka, startKafka } from '../../../deploy/local/kafka/start.ts';
import { silentLogger } from '../../../test/kit/services/telemetry.ts';
import { eventsTopic } from './event-bus.ts';
import { createKafkaBus } from './kafka.ts';

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
