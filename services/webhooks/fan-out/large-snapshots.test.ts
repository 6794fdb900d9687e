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
import { type RunningServer, startGrpcServer } from '../../platform/grpc/server.ts';
import { LOCK_SPACE } from './shop-locks.ts';

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

describe('large snapshots of one return', () => {
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
