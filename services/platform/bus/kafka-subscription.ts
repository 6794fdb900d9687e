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
/** How long a subscriber waits for brokers at its start, before it continues without them. */
const FIRST_START_MS = 3_000;
const STOP_MS = 6_000;

/**
 * Reads topics as a member of a group. Records are batched as in the in-process bus, so a failing
 * key does not block other keys. The offset moves only over records without a gap. kafkajs may stall after a fault, so
 * a watchdog replaces a consumer that ended or is silent.
 */
export class KafkaSubscription {
  readonly #o: KafkaSubscriptionOptions;
  /** Settles when the first session has started, or could not. */
  readonly #first: Promise<void>;
  readonly #watching: Worker;
  readonly #committing: Worker;
  #session: Session | undefined;
  #isStopping = false;

  constructor(o: KafkaSubscriptionOptions) {
    this.#o = o;
    // Kafka may be unavailable, or another process may be creating the topic. Events then wait, and this process
    // continues, because it has calls to answer.
    this.#first = startSession(o).then(
      (started) => this.#adopt(started),
      (error: unknown) => {
        o.logger.warn({ err: error, group: o.group }, 'Kafka unavailable, retrying');
      },
    );
    this.#watching = startLoop({
      ...{ name: 'Kafka consumer', logger: o.logger },
      ...{ idleMs: WATCH_EVERY_MS, delayMs: WATCH_EVERY_MS },
      step: (signal) => this.#watch(signal),
    });
    this.#committing = startLoop({
      ...{ name: 'Kafka offsets', logger: o.logger },
      ...{ idleMs: COMMIT_EVERY_MS, delayMs: COMMIT_EVERY_MS },
      step: () => this.#commit(),
    });
  }

  /** Resolves when the first session has started, or a while later without brokers. */
  async started(): Promise<void> {
    await within(FIRST_START_MS, this.#first);
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    const stopped = [within(STOP_MS, this.#watching.stop()), this.#committing.stop()];
    const last = this.#session;
    this.#session = undefined;
    // At once: records that wait behind a call in flight are for the next subscriber.
    const ending = last ? endSession(last) : undefined;
    // A start that hangs with the brokers ends by itself later.
    await Promise.all([...stopped, ending]);
  }

  /** Ends a session that started while a stop had begun. */
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
    const again = { backoff: REBUILD_BACKOFF, isPassing: () => true, signal };
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
