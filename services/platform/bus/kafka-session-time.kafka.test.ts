import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type LocalKafka, startKafka } from '../../../deploy/local/kafka/start.ts';
import { until } from '../../../test/kit/until.ts';
import { createLogger } from '../log.ts';
import { createKafkaBus } from './kafka.ts';

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
