import { setTimeout as sleep } from 'node:timers/promises';
import type { Consumer, EachBatchPayload, Kafka, KafkaMessage } from 'kafkajs';
import type { ReceivedRecord, Subscription } from '../bus/event-bus.ts';
import { createBackoff, equalJitter, retry } from '../process/backoff.ts';
import { within } from '../process/within.ts';
import { type Next, startLoop, type Worker } from '../process/worker.ts';
import type { Logger } from '../telemetry/log.ts';
import { logSeldom } from '../telemetry/log-seldom.ts';
import { kafkaPrototype } from './internals.ts';
import { keepMembership } from './membership.ts';
import { RecordBatches } from './record-batches.ts';
import { isSessionRejection, type SessionTime } from './session-time.ts';
import type { TopicKeeper } from './topics.ts';

const COMMIT_EVERY_MS = 1_000;
const WATCH_EVERY_MS = 500;
const REBUILD_BACKOFF = createBackoff({ firstMs: 250, longestMs: 500, jitter: equalJitter });
/**
 * How long a subscriber waits for the brokers at its start. After it, the subscriber starts without them. Milliseconds.
 */
const FIRST_START_MS = 3_000;
const STOP_MS = 6_000;

/**
 * Reads topics as a member of a group. It passes records to the handler in batches, as the in-process bus does, so that
 * a failing key does not block other keys. The offset of the group moves past a record only when this record and all
 * earlier ones are handled. kafkajs may stall after a failure of a broker, so a loop replaces a consumer that ended or
 * shows no activity.
 */
export class KafkaSubscription {
  readonly #o: KafkaSubscriptionOptions;
  /** Resolves when the first session has started, or has failed to start. */
  readonly #first: Promise<void>;
  readonly #watching: Worker;
  readonly #committing: Worker;
  #session: Session | undefined;
  #isStopping = false;

  constructor(o: KafkaSubscriptionOptions) {
    this.#o = o;
    // When Kafka is unavailable or another process is creating the topic, events wait, and this process serves its
    // calls.
    this.#first = startSession(o).then(
      (started) => this.#adopt(started),
      (error: unknown) => {
        o.logger.warn({ err: error, group: o.group }, 'Kafka unavailable, retrying');
      },
    );
    this.#watching = startLoop({
      name: 'Kafka consumer',
      logger: o.logger,
      idleMs: WATCH_EVERY_MS,
      delayMs: WATCH_EVERY_MS,
      step: (signal) => this.#watch(signal),
    });
    this.#committing = startLoop({
      name: 'Kafka offsets',
      logger: o.logger,
      idleMs: COMMIT_EVERY_MS,
      delayMs: COMMIT_EVERY_MS,
      step: () => this.#commit(),
    });
  }

  /** Resolves when the first session has started. Without brokers, resolves after a while. */
  async started(): Promise<void> {
    await within(FIRST_START_MS, this.#first);
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    const stopped = [within(STOP_MS, this.#watching.stop()), this.#committing.stop()];
    const last = this.#session;
    this.#session = undefined;
    // The session ends immediately. Records that wait behind a call in flight go to the next subscriber.
    const ending = last ? endSession(last) : undefined;
    // When the start of a session hangs because of the brokers, `within` above ends the wait for it.
    await Promise.all([...stopped, ending]);
  }

  /** Uses a session that has started. Ends it when a stop has begun. */
  async #adopt(started: Session): Promise<void> {
    if (this.#isStopping) await endSession(started);
    else this.#session = started;
  }

  async #watch(signal: AbortSignal): Promise<Next> {
    await this.#first;
    if (!this.#session || !isAlive(this.#session)) await this.#replace(signal);
    return 'idle';
  }

  async #replace(signal: AbortSignal): Promise<void> {
    const { group, keeper, logger, topics } = this.#o;
    const ended = this.#session;
    if (ended) {
      logger.warn({ group }, 'Kafka consumer ended or stalled, replaced');
      this.#session = undefined;
      await endSession(ended);
      for (const topic of topics) keeper.check(topic);
    }
    const again = { backoff: REBUILD_BACKOFF, isTransient: () => true, signal };
    await this.#adopt(await retry(() => startSession(this.#o), again));
    if (this.#session) logger.info({ group }, 'Kafka available again');
  }

  async #commit(): Promise<Next> {
    if (!this.#session) return 'idle';
    await commitSession(this.#session).catch((error: unknown) => {
      this.#o.logger.debug({ err: error, group: this.#o.group }, 'offsets not committed');
    });
    return 'idle';
  }
}

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
 * {@link FETCH_WAIT_MS} together to notice that another member has left. The session timeout (`session-time.ts`)
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

interface KafkaSubscriptionOptions extends Subscription {
  readonly kafka: Kafka;
  readonly topics: readonly string[];
  readonly keeper: TopicKeeper;
  readonly sessionTime: SessionTime;
  readonly logger: Logger;
}

/** One consumer of the group, and the records that it received. A new session starts from the committed offsets. */
interface Session {
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
function isAlive(session: Session): boolean {
  return !session.hasFailed && performance.now() - session.lastActivityAt < SILENCE_MS;
}

/** Joins the group and starts to read. @throws when no broker answers. */
async function startSession(o: KafkaSubscriptionOptions): Promise<Session> {
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
async function commitSession(session: Session): Promise<void> {
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
async function endSession(session: Session): Promise<void> {
  session.hasEnded = true;
  await session.batches.stop();
  if (!session.hasFailed) await within(LEAVE_MS, commitSession(session)).catch(() => {});
  await within(LEAVE_MS, session.consumer.disconnect()).catch(() => {});
}

/** An offset of a partition that a consumer commits. Every record before it is handled. */
interface Commit {
  readonly topic: string;
  readonly partition: number;
  /** The next offset to read. */
  readonly offset: string;
}

interface OffsetTracker {
  /**
   * Registers a received record. The group's offset stays at or before the record until the returned function is
   * called. A call after `clear` has no effect, because the record arrives again.
   */
  begin(topic: string, partition: number, offset: bigint): () => void;
  /** Returns how many records of a partition are registered and not yet completed. */
  open(topic: string, partition: number): number;
  /** Returns offsets that may be committed and were not committed yet. After this call they count as committed. */
  due(): Commit[];
  /** Makes all offsets due again, because a commit failed. */
  redo(): void;
  clear(): void;
}

interface Received {
  readonly offset: bigint;
}

interface Partition {
  readonly topic: string;
  readonly partition: number;
  /** Records that are not completed. When reading starts again, an offset may be here twice, or after a higher one. */
  readonly open: Set<Received>;
  /** The last received offset. Reading continues after it. It becomes lower when reading starts again. */
  last: bigint;
  committed: bigint;
}

/**
 * Tracks which records are handled, in any order. The group's offset of a partition moves only up to the first record
 * that is not handled.
 */
export function createOffsetTracker(): OffsetTracker {
  const partitions = new Map<string, Partition>();

  const nameOf = (topic: string, partition: number): string => `${topic}/${partition}`;
  const partitionOf = (topic: string, partition: number): Partition => {
    const name = nameOf(topic, partition);
    const found = partitions.get(name);
    if (found) return found;
    const made = { topic, partition, open: new Set<Received>(), last: -1n, committed: 0n };
    partitions.set(name, made);
    return made;
  };

  return {
    begin(topic, partition, offset) {
      const state = partitionOf(topic, partition);
      const received = { offset };
      state.open.add(received);
      state.last = offset;
      return () => {
        state.open.delete(received);
      };
    },
    // Does not create the partition. For a partition without a record, `redo` would make offset 0 due.
    open: (topic, partition) => partitions.get(nameOf(topic, partition))?.open.size ?? 0,
    due() {
      const due: Commit[] = [];
      for (const state of partitions.values()) {
        const offset = lowestUndone(state);
        if (offset === state.committed) continue;
        state.committed = offset;
        due.push({ topic: state.topic, partition: state.partition, offset: String(offset) });
      }
      return due;
    },
    redo() {
      for (const state of partitions.values()) state.committed = -1n;
    },
    clear: () => partitions.clear(),
  };
}

function lowestUndone({ open, last }: Partition): bigint {
  let lowest = last + 1n;
  for (const { offset } of open) if (offset < lowest) lowest = offset;
  return lowest;
}

/** The internal class of the library for the group of a consumer. It gets a new offset manager at each join. */
interface Group {
  readonly offsetManager: unknown;
  fetch(nodeId: unknown): Promise<object[]>;
}

interface Runner {
  readonly consumerGroup: Group;
  handleBatch(batch: object): Promise<void>;
}

const patched = new WeakSet<object>();
/** For each fetched batch, the offset manager at the time of its fetch. */
const origins = new WeakMap<object, unknown>();

/**
 * Makes a consumer skip batches that it fetched before it last joined its group. After some failed fetches, kafkajs
 * 2.2.4 joins while other batches wait to be handled. If it handled such a batch after the join, it would continue to
 * read after this batch, and never read the records that it dropped at the join. A skipped batch is read again from the
 * committed offset.
 *
 * Patches internal classes of the library, once per process. Has no effect when a later version has different classes.
 */
export function skipStaleBatches(): void {
  const group = kafkaPrototype('kafkajs/src/consumer/consumerGroup.js', isGroup);
  const runner = kafkaPrototype('kafkajs/src/consumer/runner.js', isRunner);
  if (!group || !runner || patched.has(group)) return;
  patched.add(group);
  const { fetch } = group;
  const { handleBatch } = runner;
  group.fetch = async function (this: Group, nodeId) {
    const origin = this.offsetManager;
    const batches = await fetch.call(this, nodeId);
    // The consumer joined during the fetch, perhaps because the fetch from another broker failed.
    if (this.offsetManager !== origin) return [];
    for (const batch of batches) origins.set(batch, origin);
    return batches;
  };
  runner.handleBatch = async function (this: Runner, batch) {
    if (origins.get(batch) === this.consumerGroup.offsetManager) {
      await handleBatch.call(this, batch);
    }
  };
}

function isGroup(value: object): value is Group {
  return 'fetch' in value && typeof value.fetch === 'function';
}

function isRunner(value: object): value is Runner {
  return 'handleBatch' in value && typeof value.handleBatch === 'function';
}
