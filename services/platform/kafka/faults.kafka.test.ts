import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  startCluster,
  startWriters,
  type TestCluster,
  trackRecords,
  type Writers,
} from '../../../test/kit/events/kafka-cluster.ts';
import { silentLogger } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import type { EventBus } from '../bus/event-bus.ts';
import { createKafkaBus } from './kafka.ts';

/** Longer runs: `KAFKA_FAULT_ROUNDS=10 KAFKA_STORM_S=120 npm run test:kafka -- kafka-faults`. */
const ROUNDS = Number(process.env.KAFKA_FAULT_ROUNDS ?? 1);
const STORM_MS = Number(process.env.KAFKA_STORM_S ?? 12) * 1_000;
/** A member joins or leaves this often in the storm. */
const STORM_EVERY_MS = 2_000;
/** Lag must end within this time after the last fault. */
const RECOVERY_MS = 30_000;
/** A hanging broker is replaced within this time: its requests have timed out and the election is over. */
const HANG_MS = 90_000;

describe('kafka with brokers that crash', () => {
  const topic = `test.${randomUUID()}`;
  const group = `test-${randomUUID()}`;
  const receiving = trackRecords();
  let cluster: TestCluster;
  let bus: EventBus;
  let writers: Writers;
  let subscription: { stop(): Promise<void> };
  const open = (clientId: string) =>
    createKafkaBus({
      brokers: cluster.brokers,
      clientId,
      logger: silentLogger(),
      retentionDays: 1,
    });
  const listen = (member: EventBus) =>
    member.subscribe({ group, topics: [topic], handle: receiving.handle });

  beforeAll(async () => {
    cluster = await startCluster(3);
    bus = open('faults');
    subscription = await listen(bus);
    writers = startWriters(bus, topic);
    await until(() => receiving.total() > 200, RECOVERY_MS);
  });
  afterAll(async () => {
    await writers?.stop();
    await subscription?.stop();
    await bus?.close();
    await cluster?.stop();
  });

  /** Records are handled again in time, and no acknowledged record is lost or out of order. */
  async function recovers(fault: string): Promise<void> {
    const before = receiving.total();
    await until(() => receiving.total() > before + 500, RECOVERY_MS);
    await receiving.catchUp(writers, RECOVERY_MS);
    expect(receiving.gaps()).toBe(0);
    process.stdout.write(`${fault}: longest time without a record ${receiving.silenceMs()} ms\n`);
  }

  test(
    'the leader of a partition is killed and restarted',
    async () => {
      for (let round = 0; round < ROUNDS; round += 1) {
        receiving.mark();
        const index = await cluster.killLeader(topic);
        await recovers('leader killed');
        await cluster.restart(index);
        await recovers('leader back');
      }
    },
    ROUNDS * 120_000,
  );

  test('the leader of a partition hangs: another broker takes its partitions over', async () => {
    const index = await cluster.freezeLeader(topic);
    const before = new Map(writers.acknowledged);
    const began = Date.now();
    const isMoving = () =>
      [...before].every(([key, n]) => (writers.acknowledged.get(key) ?? 0) > n + 5);
    await until(isMoving, HANG_MS);
    process.stdout.write(
      `leader hangs: every key is acknowledged again after ${Date.now() - began} ms\n`,
    );
    cluster.thaw(index);
    await recovers('leader thawed');
  });

  test(
    "the group's coordinator is killed, and comes back",
    async () => {
      for (let round = 0; round < ROUNDS; round += 1) {
        receiving.mark();
        const index = await cluster.killCoordinator(group);
        await recovers('coordinator killed');
        await cluster.restart(index);
        await recovers('coordinator back');
      }
    },
    ROUNDS * 120_000,
  );

  test(
    'members join and leave all the time',
    async () => {
      receiving.mark();
      for (const end = Date.now() + STORM_MS; Date.now() < end; ) {
        const member = open('passing');
        const passing = await listen(member);
        await sleep(STORM_EVERY_MS);
        await passing.stop();
        await member.close();
        await sleep(STORM_EVERY_MS);
      }
      await recovers('rebalance storm');
    },
    STORM_MS + 120_000,
  );

  test('the whole cluster is killed: publish rejects, health reports it, all clients recover without help', async () => {
    receiving.mark();
    await cluster.killAll();
    const record = { key: 'other', value: Buffer.from('1'), headers: {} };
    await expect(bus.publish(topic, [record])).rejects.toThrow();
    await expect(bus.health()).rejects.toThrow();
    // A process that starts during the outage starts anyway, and listens once it can.
    const late = open('late');
    const received: string[] = [];
    const lateSubscription = await late.subscribe({
      group: randomUUID(),
      topics: [topic],
      handle: async (records) => {
        received.push(...records.map(({ key }) => key));
      },
    });
    await cluster.restart();
    await recovers('cluster killed and started again');
    await until(() => received.length > 0, RECOVERY_MS);
    await expect(bus.health()).resolves.toBeUndefined();
    await lateSubscription.stop();
    await late.close();
  });
});
