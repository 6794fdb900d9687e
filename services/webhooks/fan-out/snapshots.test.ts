import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { newShop } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { createInProcessBus } from '../../platform/bus/in-process.ts';
import { type RunningServer, startGrpcServer } from '../../platform/rpc/server.ts';
import { LOCK_SPACE } from './shop-locks.ts';
import { inPartsWithSnapshots, type ReadSnapshot } from './snapshots.ts';

describe('snapshots from returns', () => {
  let webhooks: WebhooksUnderTest;

  beforeAll(async () => {
    webhooks = await runWebhooks();
  });
  afterAll(() => webhooks.stop());

  /** Five of these exceed the size of a part. */
  const LARGE = 'x'.repeat(2 * 1024 * 1024);

  async function subscribed(): Promise<bigint> {
    const shopId = newShop();
    await webhooks.subscribe({ shopId, url: 'http://127.0.0.1:9/hook' });
    return shopId;
  }

  /** Events without their snapshots. */
  function omitted(shopId: bigint, count: number) {
    return Array.from({ length: count }, () => {
      const { snapshot: _, ...event } = sampleEvent('return.closed', shopId);
      return { ...event, snapshotOmitted: true };
    });
  }

  const readLarge: ReadSnapshot = async ({ shopId }) => {
    const { snapshot } = sampleEvent('return.closed', shopId);
    if (!snapshot) throw new Error('sample events carry a snapshot');
    return { ...snapshot, statusPageUrl: LARGE };
  };

  test('are read one at a time, in parts of 8 MiB, all events in order', async () => {
    const shopId = await subscribed();
    const { snapshot } = sampleEvent('return.closed', shopId);
    const events = omitted(shopId, 10).map((event, n) =>
      n === 3 && snapshot ? { ...event, snapshot, snapshotOmitted: false } : event,
    );
    let [reading, mostReading] = [0, 0];
    const inParts = inPartsWithSnapshots(webhooks.db.pool, (key) => {
      reading += 1;
      mostReading = Math.max(mostReading, reading);
      return readLarge(key).finally(() => {
        reading -= 1;
      });
    });
    const parts: string[][] = [];
    for await (const part of inParts(events)) {
      expect(part.every((event) => event.snapshot && !event.snapshotOmitted)).toBe(true);
      expect(reading).toBe(0);
      parts.push(part.map((event) => event.eventId));
    }
    expect(parts.map((part) => part.length)).toEqual([5, 4, 1]);
    expect(parts.flat()).toEqual(events.map((event) => event.eventId));
    expect(mostReading).toBe(1);
  });

  test('are in memory for one batch at a time, also after a batch has failed', async () => {
    const shopId = await subscribed();
    const inParts = inPartsWithSnapshots(webhooks.db.pool, readLarge);
    let [open, mostOpen] = [0, 0];
    const handle = async (fails: boolean) => {
      for await (const _part of inParts(omitted(shopId, 6))) {
        open += 1;
        mostOpen = Math.max(mostOpen, open);
        await webhooks.db.pool.query('select pg_sleep(0.01)');
        open -= 1;
        if (fails) throw new Error('not handled');
      }
    };
    const handled = await Promise.allSettled([true, false, false].map(handle));
    expect(handled.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
    expect(mostOpen).toBe(1);
  });

  test('delay no batch that needs none', async () => {
    const shopId = await subscribed();
    const inParts = inPartsWithSnapshots(webhooks.db.pool, readLarge);
    const large = inParts(omitted(shopId, 6));
    await large.next();
    const other = [sampleEvent('return.closed', shopId), ...omitted(newShop(), 2)];
    const parts: unknown[] = [];
    for await (const part of inParts(other)) parts.push(part);
    expect(parts).toEqual([other]);
    await large.return(undefined);
  });
});

describe('large snapshots of one return', () => {
  const EVENTS = 10;
  /** Three of these are a part. */
  const SNAPSHOT_BYTES = 3 * 1024 * 1024;

  let webhooks: WebhooksUnderTest;
  let returns: RunningServer;
  let receiver: Receiver;
  /** The snapshots that webhooks has read, and what it had stored before each read. Without reads of failed tries. */
  let reads: Read[];
  /** The reads of tries that failed. On a slow machine a transaction may fail, and its snapshots are read again. */
  let readsOfFailed: Read[];
  /** The revision whose first read fails. */
  let failing: number | undefined;

  interface Read {
    readonly revision: number;
    readonly deliveries?: number;
    readonly shopLocks?: number;
  }

  beforeAll(async () => {
    receiver = await startReceiver();
    returns = await startGrpcServer({
      port: 0,
      routes: (router) => {
        router.service(ReturnsService, {
          async getSnapshot({ shopId, revision }) {
            reads.push({ revision: Number(revision), ...(await stored(shopId)) });
            if (Number(revision) === failing) {
              failing = undefined;
              throw new ConnectError('too slow', Code.DeadlineExceeded);
            }
            const { snapshot } = sampleEvent('return.closed', shopId);
            if (!snapshot) throw new Error('sample events carry a snapshot');
            return { return: { ...snapshot, statusPageUrl: 'x'.repeat(SNAPSHOT_BYTES) } };
          },
        });
      },
    });
    webhooks = await runWebhooks({
      RETURNS_TARGET: `127.0.0.1:${returns.port}`,
      bus: createInProcessBus({ onFailure: setFailedApart }),
    });
  });
  afterAll(async () => {
    await webhooks.stop();
    await returns.stop();
    await receiver.stop();
  });
  beforeEach(() => {
    [reads, readsOfFailed, failing] = [[], [], undefined];
    receiver.received.length = 0;
  });

  /** Moves the reads of the part that failed: those since the last commit. */
  function setFailedApart(): void {
    const committed = reads.at(-1)?.deliveries;
    const { failed = [], done = [] } = Object.groupBy(reads, ({ deliveries }) =>
      deliveries === committed ? 'failed' : 'done',
    );
    readsOfFailed.push(...failed);
    reads = done;
  }

  async function stored(shopId: bigint) {
    const { rows } = await webhooks.db.pool.query<{ deliveries: number; shopLocks: number }>(
      `select (select count(*)::int from deliveries where shop_id = $1) as deliveries,
            (select count(*)::int from pg_locks
              where locktype = 'advisory' and classid = $2 and database =
                    (select oid from pg_database where datname = current_database())) as "shopLocks"`,
      [shopId, LOCK_SPACE],
    );
    return rows[0];
  }

  /** Publishes events of one return in one batch, and expects that each is delivered once. */
  async function publishAll(): Promise<void> {
    const shopId = newShop();
    await webhooks.subscribe({ shopId, url: receiver.url });
    const events = Array.from({ length: EVENTS }, (_, nth) => {
      const { snapshot: _snapshot, ...event } = sampleEvent('return.closed', shopId);
      return { ...event, revision: BigInt(nth + 1), snapshotOmitted: true };
    });
    await webhooks.publish(...events);
    await until(() => receiver.received.length === EVENTS);
    const sent = receiver.received.map(({ headers }) => headers['x-service-event-id']);
    expect(sent.toSorted()).toEqual(events.map(({ eventId }) => eventId).toSorted());
  }

  /** Reads of these revisions, each after the commit of all earlier parts, and without a transaction that waits for it. */
  function readsOf(...revisions: number[]): object[] {
    return revisions.map((revision) => {
      const deliveries = 3 * Math.floor((revision - 1) / 3);
      return { revision, deliveries, shopLocks: 0 };
    });
  }

  test('are committed in parts of 8 MiB, in order, and no transaction waits for a read', async () => {
    await publishAll();
    expect(reads).toEqual(readsOf(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  });

  test('are neither lost nor repeated when a read between two parts fails', async () => {
    failing = 5;
    await publishAll();
    // The first part was committed. Only the second one is read again.
    expect(readsOfFailed).toEqual(expect.arrayContaining(readsOf(4, 5)));
    expect(reads).toEqual(readsOf(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  });
});
