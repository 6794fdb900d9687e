import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from '@jest/globals';
import { type LocalKafka, startKafka } from '../../../deploy/local/kafka/start.ts';
import { busContract } from '../../../test/support/bus-contract.ts';
import { silentLogger } from '../../../test/support/telemetry.ts';
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
  createKafkaBus({ brokers: kafka.brokers, clientId: 'test', logger: silentLogger() }),
);
