import { setTimeout as sleep } from 'node:timers/promises';
import type { Consumer, EachBatchPayload, Kafka, KafkaMessage } from 'kafkajs';
import type { Logger } from '../log.ts';
import { createDispatcher, type Dispatcher } from './dispatcher.ts';
import type { ReceivedRecord, Subscription } from './event-bus.ts';
import { createOffsetTracker, type OffsetTracker } from './kafka-offsets.ts';
import type { TopicKeeper } from './kafka-topics.ts';

/** Records of one partition received and not dealt with; more are not fetched meanwhile. */
const MAX_OPEN = 1_000;
const COMMIT_EVERY_MS = 200;
const HEARTBEAT_EVERY_MS = 1_000;
const SESSION_TIMEOUT_MS = 10_000;
const REBALANCE_TIMEOUT_MS = 15_000;
/** Empty fetches wait this long; a disconnect waits for them. */
const FETCH_WAIT_MS = 500;
/** A consumer without a sign of life for this long is replaced. */
const SILENCE_MS = 30_000;
const WATCH_EVERY_MS = 1_000;
const REBUILD_PAUSE_MS = 500;

export interface KafkaSubscriptionOptions extends Subscription {
  readonly kafka: Kafka;
  readonly topics: readonly string[];
  readonly keeper: TopicKeeper;
  readonly logger: Logger;
}

/** One consumer of the group with what it has received. A new one starts from the committed offsets. */
interface Session {
  readonly consumer: Consumer;
  readonly dispatcher: Dispatcher;
  readonly offsets: OffsetTracker;
  lastSign: number;
  hasFailed: boolean;
}

/**
 * Reads topics as a member of a group. Records go through the same dispatcher as in one process, so
 * a failing key holds up no other; the offset moves only over records without a gap. kafkajs may
 * stand still after its group's coordinator died, so a watchdog replaces a silent consumer.
 */
export async function subscribeToKafka(
  o: KafkaSubscriptionOptions,
): Promise<{ stop(): Promise<void> }> {
  const stopping = new AbortController();
  // Kafka may be away, or another process just making the topic: then events wait and this process
  // does not, for it has calls to answer.
  let session: Session | undefined = await start(o).catch((error: unknown) => {
    o.logger.warn({ err: error, group: o.group }, 'Kafka cannot be read yet: trying on');
    return undefined;
  });

  async function watch(): Promise<void> {
    for (;;) {
      await sleep(WATCH_EVERY_MS, undefined, { signal: stopping.signal }).catch(() => {});
      if (stopping.signal.aborted) return;
      if (session && isAlive(session)) continue;
      if (session) {
        o.logger.warn({ group: o.group }, 'Kafka consumer stands still: a new one takes over');
        await end(session);
      }
      session = await retried(() => start(o), stopping.signal);
    }
  }

  const committing = commitRegularly(o, () => session, stopping.signal);
  const watching = watch();
  return {
    async stop() {
      stopping.abort();
      // At once: what waits behind a call in flight is for the next subscriber.
      const draining = session?.dispatcher.stop();
      await Promise.all([watching, committing, draining]);
      if (session) await end(session);
    },
  };
}

function isAlive(session: Session): boolean {
  return !session.hasFailed && Date.now() - session.lastSign < SILENCE_MS;
}

async function start(o: KafkaSubscriptionOptions): Promise<Session> {
  for (const topic of o.topics) await o.keeper.partitions(topic);
  const consumer = o.kafka.consumer({
    groupId: o.group,
    allowAutoTopicCreation: false,
    sessionTimeout: SESSION_TIMEOUT_MS,
    rebalanceTimeout: REBALANCE_TIMEOUT_MS,
    heartbeatInterval: HEARTBEAT_EVERY_MS,
    maxWaitTimeInMs: FETCH_WAIT_MS,
    // Long retries leave it with a coordinator that is gone.
    retry: {
      initialRetryTime: 100,
      maxRetryTime: 300,
      retries: 2,
      restartOnFailure: async () => true,
    },
  });
  const offsets = createOffsetTracker();
  const onFailure = (error: unknown, records: readonly ReceivedRecord[]) => {
    o.logger.warn({ err: error, group: o.group, records: records.length }, 'records not handled');
  };
  const dispatcher = createDispatcher({ handle: o.handle, onFailure });
  const session: Session = {
    consumer,
    dispatcher,
    offsets,
    lastSign: Date.now(),
    hasFailed: false,
  };
  follow(session);
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
    await end(session);
    throw error;
  }
}

/** Signs of life and of death. After a rebalance offsets of lost partitions are not ours to commit. */
function follow(session: Session): void {
  const { consumer, offsets } = session;
  const sign = () => {
    session.lastSign = Date.now();
  };
  consumer.on(consumer.events.FETCH, sign);
  consumer.on(consumer.events.HEARTBEAT, sign);
  consumer.on(consumer.events.GROUP_JOIN, () => {
    sign();
    offsets.clear();
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (!payload.restart || payload.error.message.includes('NOT_COORDINATOR')) {
      session.hasFailed = true;
    }
  });
}

/** Hands a batch on and returns while there is room for more. */
async function receive(session: Session, payload: EachBatchPayload): Promise<void> {
  const { batch } = payload;
  const { topic, partition } = batch;
  const deliveries = batch.messages.map((message) => {
    const offset = BigInt(message.offset);
    session.offsets.begin(topic, partition, offset);
    const done = () => session.offsets.end(topic, partition, offset);
    return { record: recordOf(topic, partition, message), done };
  });
  session.dispatcher.push(deliveries);
  // Only says where to read on; what is committed is the tracker's matter.
  payload.resolveOffset(batch.lastOffset());
  await payload.heartbeat();
  while (session.offsets.open(topic, partition) >= MAX_OPEN) {
    if (!payload.isRunning() || payload.isStale()) return;
    await sleep(50);
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

async function commitRegularly(
  o: KafkaSubscriptionOptions,
  current: () => Session | undefined,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await sleep(COMMIT_EVERY_MS, undefined, { signal }).catch(() => {});
    const session = current();
    if (session) await commit(o, session);
  }
}

/** A commit that fails costs repeats, no records: the next one covers it. */
async function commit(o: KafkaSubscriptionOptions, session: Session): Promise<void> {
  const due = session.offsets.due();
  if (due.length === 0) return;
  try {
    await session.consumer.commitOffsets(due);
  } catch (error) {
    session.offsets.redo();
    o.logger.warn({ err: error, group: o.group }, 'offsets not committed');
  }
}

/** Handlers in flight finish and their offsets are committed before the group is left. */
async function end(session: Session): Promise<void> {
  await session.dispatcher.stop();
  const due = session.offsets.due();
  if (due.length > 0 && !session.hasFailed) {
    await session.consumer.commitOffsets(due).catch(() => {});
  }
  await session.consumer.disconnect().catch(() => {});
}

async function retried<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  while (!signal.aborted) {
    try {
      return await work();
    } catch {
      await sleep(REBUILD_PAUSE_MS, undefined, { signal }).catch(() => {});
    }
  }
  return undefined;
}
