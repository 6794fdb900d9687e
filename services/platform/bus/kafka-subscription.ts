import { createBackoff, equalJitter, retry } from '../backoff.ts';
import { within } from '../within.ts';
import { startLoop } from '../worker.ts';
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
const REBUILD_BACKOFF = createBackoff({ firstMs: 250, longestMs: 500, jitter: equalJitter });
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
  let isStopping = false;
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
  async function adopt(started: Session): Promise<void> {
    if (isStopping) await endSession(started);
    else session = started;
  }

  async function replace(signal: AbortSignal): Promise<void> {
    if (session) {
      o.logger.warn({ group: o.group }, 'Kafka consumer ended or stalled, replaced');
      const ended = session;
      session = undefined;
      await endSession(ended);
      for (const topic of o.topics) o.keeper.check(topic);
    }
    const again = { backoff: REBUILD_BACKOFF, isPassing: () => true, signal };
    await adopt(await retry(() => startSession(o), again));
    if (session) o.logger.info({ group: o.group }, 'Kafka available again');
  }

  const watching = startLoop({
    ...{
      name: 'Kafka consumer',
      logger: o.logger,
      idleMs: WATCH_EVERY_MS,
      delayMs: WATCH_EVERY_MS,
    },
    async step(signal) {
      await first;
      if (!session || !isAlive(session)) await replace(signal);
      return 'idle';
    },
  });
  const committing = startLoop({
    ...{
      name: 'Kafka offsets',
      logger: o.logger,
      idleMs: COMMIT_EVERY_MS,
      delayMs: COMMIT_EVERY_MS,
    },
    async step() {
      await (session && commitSession(session))?.catch((error: unknown) => {
        o.logger.debug({ err: error, group: o.group }, 'offsets not committed');
      });
      return 'idle';
    },
  });
  await within(FIRST_START_MS, first);
  return {
    async stop() {
      isStopping = true;
      const stopped = [within(STOP_MS, watching.stop()), committing.stop()];
      const last = session;
      session = undefined;
      // At once: records that wait behind a call in flight are for the next subscriber.
      const ending = last ? endSession(last) : undefined;
      // A start that hangs with the brokers ends by itself later.
      await Promise.all([...stopped, ending]);
    },
  };
}
