import { setTimeout as sleep } from 'node:timers/promises';
import type { Consumer, EachBatchPayload, Kafka, KafkaMessage } from 'kafkajs';
import type { Logger } from '../log.ts';
import { logSeldom } from '../log-seldom.ts';
import { within } from '../within.ts';
import type { ReceivedRecord, Subscription } from './event-bus.ts';
import { keepMembership } from './kafka-membership.ts';
import { createOffsetTracker, type OffsetTracker } from './kafka-offsets.ts';
import { isSessionRejection, type SessionTime } from './kafka-session-time.ts';
import { skipStaleBatches } from './kafka-stale-batches.ts';
import type { TopicKeeper } from './kafka-topics.ts';
import { RecordBatches } from './record-batches.ts';

/** Maximum number of received records of a partition that are not handled. At this number, fetching stops. */
const MAX_OPEN = 1_000;
/**
 * Maximum number of bytes of such records, over all partitions, because events may be large. Excludes the fetch
 * in flight.
 */
const MAX_OPEN_BYTES = 32 * 1024 * 1024;
const CAPACITY_CHECK_MS = 20;
/**
 * Interval of heartbeats. kafkajs sends a heartbeat only after a fetch. So a member needs at most this interval and
 * {@link FETCH_WAIT_MS} together to notice that another member has left. The session timeout (`kafka-session-time.ts`)
 * is several times longer, so that a busy process stays a member. Milliseconds.
 */
const HEARTBEAT_EVERY_MS = 250;
const REBALANCE_TIMEOUT_MS = 10_000;
/** How long a fetch waits for records. Heartbeats and a disconnect wait for the fetch. Milliseconds. */
const FETCH_WAIT_MS = 250;
/** A consumer is replaced when it shows no activity for this long. Milliseconds. */
const SILENCE_MS = 20_000;
/**
 * How long a stop waits for the brokers. After it, the group removes the member when its session expires. Milliseconds.
 */
const LEAVE_MS = 5_000;
/**
 * Maximum number of parallel calls of the handler. Usually one call runs, because calls wait for each other's row
 * locks.
 */
const CONCURRENCY = 3;
/** A second call starts only after this time, which is longer than a full batch needs. Milliseconds. */
const PARALLEL_AFTER_MS = 500;
/**
 * How long the first call waits for more records, because kafkajs delivers the result of one fetch partition by
 * partition. Milliseconds.
 */
const GATHER_MS = 2;
const BATCH_SIZE = 250;
/**
 * In an outage each key fails again and again. Minimum time between two log lines that count these failures.
 * Milliseconds.
 */
const WARN_EVERY_MS = 1_000;

export interface KafkaSubscriptionOptions extends Subscription {
  readonly kafka: Kafka;
  readonly topics: readonly string[];
  readonly keeper: TopicKeeper;
  readonly sessionTime: SessionTime;
  readonly logger: Logger;
}

/** One consumer of the group, and the records that it received. A new session starts from the committed offsets. */
export interface Session {
  readonly consumer: Consumer;
  readonly batches: RecordBatches;
  readonly offsets: OffsetTracker;
  lastActivityAt: number;
  hasFailed: boolean;
  /** True when the brokers rejected the session timeout. */
  isTimeoutRejected: boolean;
  hasEnded: boolean;
}

/** Whether the session works: it has not failed, and a broker answered it recently. */
export function isAlive(session: Session): boolean {
  return !session.hasFailed && performance.now() - session.lastActivityAt < SILENCE_MS;
}

/** Joins the group and starts to read. @throws when no broker answers. */
export async function startSession(o: KafkaSubscriptionOptions): Promise<Session> {
  keepMembership();
  skipStaleBatches();
  for (const topic of o.topics) await o.keeper.partitions(topic);
  const sessionMs = o.sessionTime.ms();
  const session = await beginSession(o, sessionMs);
  if (!session.isTimeoutRejected || !o.sessionTime.rejected(sessionMs)) return session;
  await endSession(session);
  return startSession(o);
}

async function beginSession(o: KafkaSubscriptionOptions, sessionMs: number): Promise<Session> {
  const consumer = o.kafka.consumer({
    groupId: o.group,
    allowAutoTopicCreation: false,
    sessionTimeout: sessionMs,
    rebalanceTimeout: REBALANCE_TIMEOUT_MS,
    heartbeatInterval: HEARTBEAT_EVERY_MS,
    maxWaitTimeInMs: FETCH_WAIT_MS,
    retry: {
      initialRetryTime: 100,
      maxRetryTime: 300,
      retries: 5,
      // `false`, because a new consumer replaces this one after a failure. If this one joined again too, it would get
      // partitions that it does not read.
      restartOnFailure: async () => false,
    },
  });
  const seldom = logSeldom(WARN_EVERY_MS);
  const onFailure = (error: unknown, { length: records }: readonly ReceivedRecord[]) =>
    seldom((failures) => {
      o.logger.warn({ err: error, group: o.group, records, failures }, 'records not handled');
    });
  const batches = new RecordBatches({
    handle: o.handle,
    onFailure,
    concurrency: CONCURRENCY,
    parallelAfterMs: PARALLEL_AFTER_MS,
    gatherMs: GATHER_MS,
    batchSize: BATCH_SIZE,
  });
  const offsets = createOffsetTracker();
  const session: Session = {
    consumer,
    batches,
    offsets,
    lastActivityAt: performance.now(),
    hasFailed: false,
    isTimeoutRejected: false,
    hasEnded: false,
  };
  watchSession(session, o);
  try {
    await consumer.connect();
    await consumer.subscribe({ topics: [...o.topics], fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: 4,
      eachBatch: (payload) => receive(session, payload),
    });
    return session;
  } catch (error) {
    await endSession(session);
    throw error;
  }
}

/**
 * Watches the session. After a join the member reads from the committed offsets. Records that were received before the
 * join and are not in the handler arrive again, at this member or at another one.
 */
function watchSession(session: Session, o: KafkaSubscriptionOptions): void {
  const { consumer, offsets, batches } = session;
  const noteActivity = () => {
    session.lastActivityAt = performance.now();
    // The session ended during a join. Disconnect, because the consumer would keep partitions that it does not read.
    if (session.hasEnded) consumer.disconnect().catch(() => {});
  };
  consumer.on(consumer.events.FETCH, noteActivity);
  consumer.on(consumer.events.HEARTBEAT, noteActivity);
  consumer.on(consumer.events.GROUP_JOIN, () => {
    noteActivity();
    offsets.clear();
    batches.dropQueued();
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    for (const topic of o.topics) o.keeper.check(topic);
    session.hasFailed = true;
    session.isTimeoutRejected = isSessionRejection(payload.error);
  });
}

/** Queues the records of a fetched batch for the handler. Returns when there is capacity for more records. */
async function receive(session: Session, payload: EachBatchPayload): Promise<void> {
  const { topic, partition, messages } = payload.batch;
  const pending = messages.map((message) => ({
    record: recordOf(topic, partition, message),
    done: session.offsets.begin(topic, partition, BigInt(message.offset)),
  }));
  session.batches.push(pending);
  // This call only sets the offset at which reading continues. The tracker decides which offset is committed.
  payload.resolveOffset(payload.batch.lastOffset());
  await payload.heartbeat();
  const isFull = () =>
    session.offsets.open(topic, partition) >= MAX_OPEN || session.batches.bytes() >= MAX_OPEN_BYTES;
  while (isFull()) {
    if (!payload.isRunning() || payload.isStale()) return;
    await sleep(CAPACITY_CHECK_MS);
    await payload.heartbeat();
  }
}

function recordOf(topic: string, partition: number, message: KafkaMessage): ReceivedRecord {
  const headers = Object.entries(message.headers ?? {}).map(([name, value]) => [
    name,
    String(Array.isArray(value) ? value[0] : value),
  ]);
  return {
    topic,
    position: `${partition}/${message.offset}`,
    key: message.key?.toString('utf8') ?? '',
    value: message.value ?? new Uint8Array(),
    headers: Object.fromEntries(headers),
  };
}

/**
 * Commits offsets that are due. A failed commit causes duplicates and loses no record. The next commit includes its
 * offsets.
 */
export async function commitSession(session: Session): Promise<void> {
  const due = session.offsets.due();
  if (due.length === 0) return;
  try {
    await session.consumer.commitOffsets(due);
  } catch (error) {
    session.offsets.redo();
    throw error;
  }
}

/** Waits for handlers in flight, commits their offsets, and then leaves the group. */
export async function endSession(session: Session): Promise<void> {
  session.hasEnded = true;
  await session.batches.stop();
  if (!session.hasFailed) await within(LEAVE_MS, commitSession(session)).catch(() => {});
  await within(LEAVE_MS, session.consumer.disconnect()).catch(() => {});
}
