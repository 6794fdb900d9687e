import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { Actor_Kind, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { startCluster, type TestCluster } from '../../../test/kit/events/kafka-cluster.ts';
import { silentLogger, testTelemetry } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import { type EventBus, eventsTopic } from '../bus/event-bus.ts';
import { consumeEvents } from '../consumer/consumer.ts';
import { createKafkaBus } from '../kafka/kafka.ts';
import { inTransaction } from '../postgres/postgres.ts';
import { newKeyringText } from '../security/keyring.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { appendEvents } from './append.ts';
import { type Relay, startRelay } from './relay.ts';

const run = promisify(execFile);
const REPLAY = fileURLToPath(new URL('../../returns/replay.ts', import.meta.url));
const RECOVERY_MS = 30_000;

describe('events over kafka', () => {
  const topic = eventsTopic('returns');
  const actor = create(ActorSchema, { kind: Actor_Kind.SYSTEM, id: 'test' });
  let cluster: TestCluster;
  let database: TestDatabase;
  let telemetry: Telemetry;
  let bus: EventBus;
  let relay: Relay;
  beforeAll(async () => {
    cluster = await startCluster(1);
    database = await createTestDatabase('returns');
    telemetry = await testTelemetry();
    bus = open('loss');
    const about = { topic, logger: silentLogger(), telemetry, retentionDays: 7 };
    relay = startRelay({ pool: database.pool, bus, ...about });
  });
  afterAll(async () => {
    await relay?.stop();
    await bus?.close();
    await telemetry?.stop();
    await database?.drop();
    await cluster?.stop();
  });

  const open = (clientId: string) =>
    createKafkaBus({
      brokers: cluster.brokers,
      clientId,
      logger: silentLogger(),
      retentionDays: 1,
    });

  const append = async (...triggers: readonly string[]): Promise<string[]> =>
    inTransaction(database.pool, (tx) =>
      appendEvents(
        tx,
        triggers.map((trigger) => ({ trigger, shopId: 1n, key: `1:${randomUUID()}`, actor })),
      ),
    );
  const times = (count: number, trigger: string) => Array.from({ length: count }, () => trigger);

  /** A listener whose effect on an event is a row that can exist only once. */
  const listen = (group: string, o: { bus: EventBus; knows?: readonly string[] }) =>
    consumeEvents({
      bus: o.bus,
      pool: database.pool,
      group,
      topics: [topic],
      logger: silentLogger(),
      telemetry,
      retentionDays: 7,
      handle: async (tx, events) => {
        for (const event of events) {
          if (o.knows?.includes(event.trigger) ?? true) await leaveMark(tx, group, event);
        }
      },
    });

  const leaveMark = (tx: pg.PoolClient, group: string, event: Event) =>
    tx.query(`insert into leases values ($1, 'effect', 1, now())`, [`${group}/${event.eventId}`]);

  const marks = async (group: string): Promise<Set<string>> => {
    const { rows } = await database.pool.query<{ name: string }>(
      `select name from leases where owner = 'effect' and starts_with(name, $1)`,
      [`${group}/`],
    );
    return new Set(rows.map(({ name }) => name.slice(group.length + 1)));
  };
  const hasAll = async (group: string, ids: readonly string[]): Promise<boolean> => {
    const there = await marks(group);
    return ids.every((id) => there.has(id));
  };
  const poison = async (): Promise<number> => {
    const { rowCount } = await database.pool.query('select from poison_records');
    return rowCount ?? 0;
  };

  test('its data is lost: the replay command publishes unhandled events again, and none has its effect twice', async () => {
    const from = new Date(Date.now() - 60_000).toISOString();
    const [steady, absent] = [`steady-${randomUUID()}`, `absent-${randomUUID()}`];
    const listening = await listen(steady, { bus });
    const before = await listen(absent, { bus });
    const received = await append(...times(100, 'return.updated'));
    await until(async () => (await hasAll(steady, received)) && (await hasAll(absent, received)));
    await before.stop();
    // Published and handled by only one of the two groups. For the other group only Kafka has them.
    const unhandled = await append(...times(50, 'return.closed'));
    await relay.flush();
    await until(() => hasAll(steady, unhandled));

    await cluster.killAll();
    const later = await append(...times(50, 'return.updated'));
    await cluster.restartEmpty();
    const after = await listen(absent, { bus });
    const all = [...received, ...unhandled, ...later];
    // Events that waited in the outbox are published without help, to listeners whose offsets no longer exist.
    await until(
      async () => (await hasAll(steady, all)) && (await hasAll(absent, later)),
      RECOVERY_MS,
    );
    expect(await hasAll(absent, unhandled)).toBe(false);

    const { stdout } = await run(process.execPath, [REPLAY, '--from', from], {
      env: {
        ...process.env,
        NODE_OPTIONS: '',
        NODE_ENV: 'test',
        DATABASE_URL: database.url,
        KAFKA_BROKERS: cluster.brokers.join(','),
        EVENT_KEYRING: newKeyringText(),
      },
    });
    expect(stdout).toContain(`${all.length} event(s) published again`);
    await until(() => hasAll(absent, all), RECOVERY_MS);
    // If an event took effect twice, the insert would violate a unique key and leave a poison record.
    expect(await poison()).toBe(0);
    await Promise.all([listening.stop(), after.stop()]);
  });

  test('old and new code share a group: each event has its effect once, none is poison', async () => {
    const group = `mixed-${randomUUID()}`;
    const other = open('newer');
    const older = await listen(group, { bus, knows: ['return.updated'] });
    const newer = await listen(group, { bus: other, knows: ['return.updated', 'return.reborn'] });
    const ids: string[] = [];
    for (let n = 0; n < 20; n += 1) {
      ids.push(...(await append(...times(5, 'return.updated'))));
      await append(...times(5, 'return.reborn'));
    }
    // One of the two stops in the middle, as in a release.
    await older.stop();
    ids.push(...(await append(...times(20, 'return.updated'), ...times(5, 'return.reborn'))));
    await until(() => hasAll(group, ids), RECOVERY_MS);
    expect(await poison()).toBe(0);
    await newer.stop();
    await other.close();
  });
});
