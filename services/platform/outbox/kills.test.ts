import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type Actor, Actor_Kind, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { randomOf } from '../../../test/kit/random.ts';
import { silentLogger, testTelemetry } from '../../../test/kit/services/telemetry.ts';
import {
  type Kill,
  poolOf,
  type SimulatedProcess,
  simulateProcess,
  WHENS,
} from '../../../test/kit/simulated-process.ts';
import { until } from '../../../test/kit/until.ts';
import type { EventBus } from '../bus/event-bus.ts';
import { inTransaction } from '../postgres/postgres.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { appendEvents } from './append.ts';
import { parseEvent } from './parse.ts';
import { type Relay, startRelay } from './relay.ts';

/** FAULT_POINTS=1000 is every point; FAULT_SEED repeats a run. */
const POINTS = Number(process.env.FAULT_POINTS ?? 12);
const SEED = Number(process.env.FAULT_SEED ?? Date.now() % 1_000_000);
const TRIAL_MS = 6_000;
/** Steps of a relay that reads, publishes and records. Some of them belong to its start. */
const STEPS = 30;
const KEYS = 3;
const REVISIONS = [1n, 2n, 3n];
const LAST = 4n;
/** The test ends leases where needed. Milliseconds. */
const LEASE_MS = 600_000;

const actor: Actor = create(ActorSchema, { kind: Actor_Kind.SYSTEM, id: 'test' });
let database: TestDatabase;
let telemetry: Telemetry;
let serial = 0;
beforeAll(async () => {
  database = await createTestDatabase('fraud');
  telemetry = await testTelemetry();
});
afterAll(async () => {
  await telemetry.stop();
  await database.drop();
});

/** The events that arrived, in order: key and revision of each. */
interface Arrived {
  readonly key: string;
  readonly revision: bigint;
}

/** Events of these revisions for each key: one transaction for each key. */
async function append(keys: readonly string[], ...revisions: readonly bigint[]): Promise<void> {
  for (const key of keys) {
    const events = revisions.map((revision) => {
      return { trigger: 'return.updated', shopId: 1n, returnId: 2n, revision, key, actor };
    });
    await inTransaction(database.pool, (tx) => appendEvents(tx, events));
  }
}

/** A relay that the test can kill, over a bus that keeps its records. */
function relayOf(simulated: SimulatedProcess, arrived: Arrived[]): Relay {
  const bus: EventBus = {
    publish: (_topic, records) =>
      simulated.step(async () => {
        arrived.push(
          ...records.map(({ key, value }) => ({ key, revision: parseEvent(value).revision })),
        );
      }),
    subscribe: () => Promise.reject(new Error('no subscriber')),
    hasCaughtUp: async () => true,
    health: async () => {},
    close: async () => {},
  };
  const about = { topic: 'events', logger: silentLogger(), telemetry, retentionDays: 7 };
  const pool = poolOf(simulated, database.pool);
  return startRelay({ ...about, bus, pool, pollMs: 50, leaseMs: LEASE_MS });
}

/** Expires the leases, as if the processes had not renewed them in time. */
function endLeases() {
  return database.pool.query(`update leases set expires_at = now() - interval '1 second'`);
}

async function runUntil(
  simulated: SimulatedProcess,
  arrived: Arrived[],
  isOver: () => boolean,
): Promise<void> {
  const relay = relayOf(simulated, arrived);
  await until(() => simulated.isKilled || isOver());
  // A killed process fails with any error.
  await relay.stop().catch(() => {});
  await simulated.finished();
  await endLeases();
}

async function trial(kill: Kill): Promise<boolean> {
  serial += 1;
  const keys = Array.from({ length: KEYS }, (_, nth) => `${serial}:${nth}`);
  const arrived: Arrived[] = [];
  const timesOf = (key: string, revision: bigint) =>
    arrived.filter((one) => one.key === key && one.revision === revision).length;
  const isThere = (revision: bigint) => () => keys.every((key) => timesOf(key, revision) > 0);
  await append(keys, ...REVISIONS);
  const first = simulateProcess(kill);
  await runUntil(first, arrived, isThere(3n));
  // Published but unrecorded events are published again, before later events of their key.
  await append(keys, LAST);
  await runUntil(simulateProcess(undefined), arrived, isThere(LAST));
  const before = arrived.length;
  // Events that were recorded as published are not published again by the next relay.
  const marker = `${serial}:marker`;
  await append([marker], 1n);
  await runUntil(simulateProcess(undefined), arrived, () => timesOf(marker, 1n) > 0);
  expect(arrived.slice(before)).toEqual([{ key: marker, revision: 1n }]);
  for (const key of keys) {
    const own = arrived.filter((one) => one.key === key).map(({ revision }) => revision);
    // In order, apart from repetitions.
    expect([...new Set(own)]).toEqual([...REVISIONS, LAST]);
    for (const revision of new Set(own)) {
      expect(timesOf(key, revision)).toBeLessThanOrEqual(first.isKilled ? 2 : 1);
    }
  }
  return first.isKilled;
}

test(
  `a relay that is killed at any await loses no event, keeps the order of a key, and repeats only what was not recorded (seed ${SEED})`,
  async () => {
    const all = Array.from({ length: STEPS }, (_, nth) =>
      WHENS.map((when): Kill => ({ at: nth + 1, when })),
    ).flat();
    // Some steps run only after everything was published. Then nothing is killed, and another point is tried.
    const enough = Math.min(POINTS, all.length) / 3;
    let killed = 0;
    for (const [tried, kill] of randomOf(SEED).shuffled(all).entries()) {
      if (tried >= POINTS && killed >= enough) break;
      const wasKilled = await trial(kill).catch((cause: Error) => {
        throw new Error(`killed ${kill.when} step ${kill.at}: ${cause.message}`, { cause });
      });
      if (wasKilled) killed += 1;
    }
    expect(killed).toBeGreaterThanOrEqual(enough);
  },
  60_000 + POINTS * TRIAL_MS,
);
