import { setTimeout as sleep } from 'node:timers/promises';
import { within } from '../within.ts';
import {
  commitSession,
  endSession,
  isAlive,
  type KafkaSubscriptionOptions,
  type Session,
  startSession,
} from './kafka-session.ts';

const COMMIT_EVERY_MS = 1_000;
const WATCH_EVERY_MS = 500;
const REBUILD_PAUSE_MS = 500;
/** How long a subscriber waits for brokers at its start, before it continues without them. */
const FIRST_START_MS = 3_000;
const STOP_MS = 6_000;

/**
 * Reads topics as a member of a group. Records go through the same dispatcher as in the in-process bus, so a failing
 * key does not block other keys. The offset moves only over records without a gap. kafkajs may stall after a fault, so
 * a watchdog replaces a consumer that ended or is silent.
 */
export async function subscribeToKafka(
  o: KafkaSubscriptionOptions,
): Promise<{ stop(): Promise<void> }> {
  const stopping = new AbortController();
  let session: Session | undefined;
  // Kafka may be unavailable, or another process may be creating the topic. Events then wait, and this process
  // continues, because it has calls to answer.
  const first = startSession(o).then(
    (started) => adopt(started),
    (error: unknown) => {
      o.logger.warn({ err: error, group: o.group }, 'Kafka unavailable, retrying');
    },
  );

  /** Ends a session that started while a stop had begun. */
  async function adopt(started: Session | undefined): Promise<void> {
    if (started && stopping.signal.aborted) await endSession(started);
    else session = started;
  }

  async function watch(): Promise<void> {
    await first;
    for (;;) {
      await sleep(WATCH_EVERY_MS, undefined, { signal: stopping.signal }).catch(() => {});
      if (stopping.signal.aborted) return;
      if (session && isAlive(session)) continue;
      if (session) {
        o.logger.warn({ group: o.group }, 'Kafka consumer ended or stalled, replaced');
        const ended = session;
        session = undefined;
        await endSession(ended);
        for (const topic of o.topics) o.keeper.check(topic);
      }
      await adopt(await retried(() => startSession(o), stopping.signal));
      if (session) o.logger.info({ group: o.group }, 'Kafka available again');
    }
  }

  async function commitRegularly(): Promise<void> {
    while (!stopping.signal.aborted) {
      await sleep(COMMIT_EVERY_MS, undefined, { signal: stopping.signal }).catch(() => {});
      if (!session) continue;
      await commitSession(session).catch((error: unknown) => {
        o.logger.debug({ err: error, group: o.group }, 'offsets not committed');
      });
    }
  }

  const committing = commitRegularly();
  const watching = watch();
  await within(FIRST_START_MS, first);
  return {
    async stop() {
      stopping.abort();
      const last = session;
      session = undefined;
      // At once: records that wait behind a call in flight are for the next subscriber.
      const ending = last ? endSession(last) : undefined;
      // A start that hangs with the brokers ends by itself later.
      await Promise.all([within(STOP_MS, watching), committing, ending]);
    },
  };
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
