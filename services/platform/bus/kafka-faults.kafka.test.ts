import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type LocalKafka, startKafka } from '../../../deploy/local/kafka/start.ts';
import { silentLogger } from '../../../test/support/telemetry.ts';
import { until } from '../../../test/support/until.ts';
import type { BusRecord, EventBus } from './event-bus.ts';
import { createKafkaBus } from './kafka.ts';

const KEYS = 40;
const FAILOVER_MS = 90_000;

/** Publishes each key's numbers in order, again and again until they are acknowledged. */
function startWriters(bus: EventBus, topic: string) {
  const acknowledged = new Map<string, number>();
  const stopping = new AbortController();
  const write = async (key: string) => {
    for (let n = 1; !stopping.signal.aborted; ) {
      const record: BusRecord = { key, value: Buffer.from(String(n)), headers: {} };
      try {
        await bus.publish(topic, [record]);
        acknowledged.set(key, n);
        n += 1;
      } catch {
        await sleep(50);
      }
    }
  };
  const writers = Array.from({ length: KEYS }, (_, n) => write(`key-${n}`));
  return {
    acknowledged,
    async stop() {
      stopping.abort();
      await Promise.all(writers);
    },
  };
}

describe('kafka with brokers that crash', () => {
  const folder = mkdtempSync(join(tmpdir(), 'rms-kafka-'));
  let kafka: LocalKafka;
  let bus: EventBus;
  beforeAll(async () => {
    kafka = await startKafka({ folder, count: 3 });
    bus = createKafkaBus({ brokers: kafka.brokers, clientId: 'faults', logger: silentLogger() });
  });
  afterAll(async () => {
    await bus?.close();
    await kafka?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('each broker killed in turn: nothing acknowledged is lost, order holds, listeners go on', async () => {
    const topic = `test.${randomUUID()}`;
    const heard = new Map<string, number[]>();
    const total = () => [...heard.values()].reduce((sum, numbers) => sum + numbers.length, 0);
    const subscription = await bus.subscribe({
      group: `test-${randomUUID()}`,
      topics: [topic],
      handle: async (records) => {
        for (const { key, value } of records) {
          const numbers = heard.get(key) ?? [];
          numbers.push(Number(Buffer.from(value).toString()));
          heard.set(key, numbers);
        }
      },
    });
    const writers = startWriters(bus, topic);
    for (const index of [0, 1, 2]) {
      const before = total();
      await until(() => total() > before + 200, FAILOVER_MS);
      await kafka.kill(index);
      const after = total();
      // One of the three was the group's coordinator: the listener must find the next.
      await until(() => total() > after + 500, FAILOVER_MS);
      await kafka.restart(index);
    }
    await writers.stop();
    const lastHeard = (key: string) => Math.max(...(heard.get(key) ?? [0]));
    await until(
      () => [...writers.acknowledged].every(([key, n]) => lastHeard(key) >= n),
      FAILOVER_MS,
    );
    for (const [key, acknowledged] of writers.acknowledged) {
      // Repeats are allowed; first hearings must be 1, 2, 3 without a gap.
      const first = [...new Set(heard.get(key))];
      expect(first.slice(0, acknowledged)).toEqual(
        Array.from({ length: acknowledged }, (_, n) => n + 1),
      );
    }
    await subscription.stop();
  }, 400_000);

  test('without brokers publish rejects, health says so, a new listener waits; all recover', async () => {
    const topic = `test.${randomUUID()}`;
    const record: BusRecord = { key: 'k', value: Buffer.from('1'), headers: {} };
    await bus.publish(topic, [record]);
    await Promise.all([0, 1, 2].map((index) => kafka.kill(index)));
    await expect(bus.publish(topic, [record])).rejects.toThrow();
    await expect(bus.health()).rejects.toThrow();
    const heard: string[] = [];
    const subscription = await bus.subscribe({
      group: randomUUID(),
      topics: [topic],
      handle: async (records) => {
        heard.push(...records.map(({ key }) => key));
      },
    });
    await Promise.all([0, 1, 2].map((index) => kafka.restart(index)));
    const recovers = async (work: () => Promise<void>) => {
      const works = () =>
        work()
          .then(() => true)
          .catch(() => false);
      await until(works, FAILOVER_MS);
    };
    await recovers(() => bus.publish(topic, [record]));
    await recovers(() => bus.health());
    await until(() => heard.length >= 2, FAILOVER_MS);
    expect(new Set(heard)).toEqual(new Set(['k']));
    await subscription.stop();
  }, 300_000);
});
