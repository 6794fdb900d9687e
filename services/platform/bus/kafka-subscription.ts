import { setTimeout as sleep } from 'node:timers/promises';
import {
  commitSession,
  endSession,
  isAlive,
  type KafkaSubscriptionOptions,
  type Session,
  startSession,
} from './kafka-session.ts';

const COMMIT_EVERY_MS = 500;
const WATCH_EVERY_MS = 500;
const REBUILD_PAUSE_MS = 500;

/**
 * Reads topics as a member of a group. Records go through the same dispatcher as in one process, so
 * a failing key holds up no other; the offset moves only over records without a gap. kafkajs may
 * stand still after a fault, so a watchdog replaces a consumer that ended or that is silent.
 */
export async function subscribeToKafka(
  o: KafkaSubscriptionOptions,
): Promise<{ stop(): Promise<void> }> {
  const stopping = new AbortController();
  // Kafka may be away, or another process just making the topic: then events wait and this process
  // does not, for it has calls to answer.
  let session: Session | undefined = await startSession(o).catch((error: unknown) => {
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
        await endSession(session);
        for (const topic of o.topics) o.keeper.check(topic);
      }
      session = await retried(() => startSession(o), stopping.signal);
      if (session) o.logger.info({ group: o.group }, 'Kafka is read again');
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
  return {
    async stop() {
      stopping.abort();
      // At once: what waits behind a call in flight is for the next subscriber.
      const draining = session?.dispatcher.stop();
      await Promise.all([watching, committing, draining]);
      if (session) await endSession(session);
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
