import { createBackoff, equalJitter, retry } from '../backoff.ts';
import { within } from '../within.ts';
import { type Next, startLoop, type Worker } from '../worker.ts';
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
