import { setTimeout as sleep } from 'node:timers/promises';
import { toBinary } from '@bufbuild/protobuf';
import pg from 'pg';
import { ReturnSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { sampleEvent } from '../../services/contract/sample-event.ts';
import { appendEvents, type NewEvent } from '../../services/platform/outbox/append.ts';
import { inTransaction } from '../../services/platform/postgres/postgres.ts';
import { serveParent } from './ipc.ts';
import { monotonicMs } from './stats.ts';

const DATABASE_URL = process.env.DATABASE_URL ?? '';
/** Connections have no time limit: on a busy machine events are late, and the latency shows this. */
const pool = new pg.Pool({
  connectionString: DATABASE_URL,
  max: 16,
  application_name: 'bench-publisher',
});
const TRIGGER = 'return.closed';

let lastReturn = 0n;
let appended = 0;
let received = 0;
let isSaturating = false;
let writers: Promise<void>[] = [];

/** The event of a closed return, with its whole state and a new key. */
function newEvent(shopId: bigint): NewEvent {
  lastReturn += 1n;
  const { actor, snapshot } = sampleEvent(TRIGGER, shopId);
  if (!actor || !snapshot) throw new Error('the sample event has no snapshot');
  return {
    trigger: TRIGGER,
    shopId,
    returnId: lastReturn,
    revision: 3n,
    key: `${shopId}:${lastReturn}`,
    actor,
    snapshot: toBinary(ReturnSchema, { ...snapshot, id: lastReturn }),
  };
}

/** Appends events in one transaction, like the services. Returns their ids. */
async function append(shops: readonly bigint[], count: number): Promise<string[]> {
  const events = Array.from({ length: count }, () => {
    appended += 1;
    return newEvent(shops[appended % shops.length] ?? 1n);
  });
  return inTransaction(pool, (tx) => appendEvents(tx, events));
}

const methods = {
  /** Appends one event per transaction at a fixed rate. Returns the scheduled time of each, by event id. */
  async flow(o: { shops: readonly bigint[]; perSecond: number; count: number }) {
    const times = new Map<string, number>();
    const started = monotonicMs();
    const pending: Promise<void>[] = [];
    for (let at = 0; at < o.count; at += 1) {
      const scheduled = started + (at * 1_000) / o.perSecond;
      const early = scheduled - monotonicMs();
      if (early > 0) await sleep(early);
      pending.push(
        append(o.shops, 1).then(([id = '']) => {
          times.set(id, scheduled);
        }),
      );
    }
    await Promise.all(pending);
    return times;
  },
  /** Keeps this many events in flight until it is stopped. */
  saturate(o: { shops: readonly bigint[]; window: number; batch: number; writers: number }) {
    isSaturating = true;
    const before = appended - received;
    const writer = async () => {
      while (isSaturating) {
        if (appended - received - before + o.batch > o.window) await sleep(2);
        else await append(o.shops, o.batch);
      }
    };
    writers = Array.from({ length: o.writers }, writer);
  },
  /** Sets the number of deliveries that the sink has received. */
  received(count: number) {
    received = count;
  },
  async stop(_: undefined) {
    isSaturating = false;
    await Promise.all(writers);
    return appended;
  },
  /** Appends this many events in large transactions. */
  async fill(o: { shops: readonly bigint[]; count: number; batch: number }) {
    for (let left = o.count; left > 0; left -= o.batch) {
      await append(o.shops, Math.min(left, o.batch));
    }
  },
};
export type PublisherMethods = typeof methods;

serveParent(methods);
