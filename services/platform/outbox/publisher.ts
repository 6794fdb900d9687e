import type pg from 'pg';
import type { EventBus } from '../bus/event-bus.ts';
import type { Logger } from '../log.ts';
import { deletePointers, waitingEvents } from './store.ts';
import { type Lane, OutboxWindow } from './window.ts';

/** Events of one key given to the bus at once. */
const MAX_SEND = 100;
const FIRST_BACKOFF_MS = 200;
const MAX_BACKOFF_MS = 2_000;
/** Acknowledgements are gathered for so long, or until there are so many, and deleted together. */
const GATHER_MS = 200;
const GATHER = 250;
/**
 * A shard that another relay is to have waits for so long for what is on its way: a broker that hangs
 * must not hold up what goes to the others. What it got all the same is repeated. Milliseconds.
 */
const HAND_OVER_MS = 5_000;
/** Many keys fail at once when the bus is away: that is said once in a while. */
const WARN_EVERY_MS = 5_000;

export interface PublisherOptions {
  readonly pool: pg.Pool;
  readonly bus: EventBus;
  readonly topic: string;
  readonly logger: Logger;
  /** Something was acknowledged or failed: there is work for `step`. */
  readonly onChange: () => void;
  readonly onPublished: (count: number) => void;
}

export interface StepResult {
  /** Whether there is more to do at once. */
  readonly isMore: boolean;
  /** When there is, at the latest. Milliseconds from now. */
  readonly restMs: number;
}

export interface Publisher {
  /**
   * Forgets what the bus has (`isPrompt`: without gathering), looks for more when `isLook` says so
   * or a look was not finished, and gives the bus what it may have.
   */
  step(shards: readonly number[], o: { isLook: boolean; isPrompt?: boolean }): Promise<StepResult>;
  /** Nothing is held: nothing waits, is on its way or is to be forgotten. */
  isEmpty(): boolean;
  /**
   * Whether another relay that took the shard now would publish something of it again: for a few
   * seconds after it was last given to `step`, at most.
   */
  isBusy(shard: number): boolean;
  /** Resolves when everything on its way is acknowledged or refused. */
  settled(): Promise<void>;
}

/**
 * Moves rows from the outbox to the bus, each key on its own: while one key is on its way nothing
 * else of that key is, so order holds, and a key that takes long holds up no other. A pointer is
 * deleted only after the bus has acknowledged; a crash between the two publishes the event again.
 */
export function createPublisher(o: PublisherOptions): Publisher {
  const window = new OutboxWindow();
  const onTheWay = new Set<Promise<void>>();
  /** Shards that a step under way looks at: it may yet send something of them. */
  let begun: readonly number[] = [];
  /** When each shard that was given up was last ours to begin. */
  const leftAt = new Map<number, number>();
  let isUnfinished = false;
  let gatherUntil = 0;
  let warnedAt = Number.NEGATIVE_INFINITY;

  async function forget(isPrompt: boolean): Promise<void> {
    const done = [...window.done()];
    if (done.length === 0) return;
    if (!isPrompt && done.length < GATHER && performance.now() < gatherUntil) return;
    await deletePointers(o.pool, done);
    window.forget(done.length);
  }

  function keep(shards: readonly number[]): void {
    for (const shard of window.keep(shards)) leftAt.set(shard, performance.now());
    for (const shard of shards) leftAt.delete(shard);
  }

  async function look(shards: readonly number[]): Promise<void> {
    // Without room, or after a failure, it is owed.
    isUnfinished = shards.length > 0;
    if (!isUnfinished || !window.hasRoom()) return;
    isUnfinished = window.take(await waitingEvents(o.pool, window.request(shards)));
  }

  function sendAll(): void {
    const now = performance.now();
    for (const lane of window.lanes.values()) {
      if (lane.sending.length > 0 || lane.waiting.length === 0 || now < lane.retryAt) continue;
      const sending = send(lane).finally(() => onTheWay.delete(sending));
      onTheWay.add(sending);
    }
  }

  async function send(lane: Lane): Promise<void> {
    const events = window.begin(lane, MAX_SEND);
    try {
      await o.bus.publish(
        o.topic,
        events.map((event) => event.record),
      );
      if (window.done().length === 0) gatherUntil = performance.now() + GATHER_MS;
      window.accept(lane);
      o.onPublished(events.length);
    } catch (error) {
      window.refuse(lane, performance.now() + backoff(lane.failures + 1));
      warn(error, lane.failures);
    }
    o.onChange();
  }

  function warn(error: unknown, failures: number): void {
    if (performance.now() < warnedAt + WARN_EVERY_MS) return;
    warnedAt = performance.now();
    o.logger.warn({ err: error, topic: o.topic, failures }, 'events could not be published');
  }

  function restMs(): number {
    const times = [...window.lanes.values()]
      .filter((lane) => lane.sending.length === 0)
      .map((lane) => lane.retryAt);
    if (window.done().length > 0) times.push(gatherUntil);
    return Math.max(1, Math.min(...times) - performance.now());
  }

  return {
    async step(shards, { isLook, isPrompt = false }) {
      keep(shards);
      begun = shards;
      // Who is to have a shard waits for what is done of it to be forgotten.
      const isAwaited = window.done().some(({ shard }) => !shards.includes(shard));
      const looking = isLook || isUnfinished ? look(shards) : undefined;
      // A look that outlived its step would bring what the next one no longer holds.
      const [forgotten, looked] = await Promise.allSettled([
        forget(isPrompt || isAwaited),
        looking,
      ]);
      begun = [];
      if (forgotten.status === 'rejected') throw forgotten.reason;
      if (looked.status === 'rejected') throw looked.reason;
      sendAll();
      return { isMore: isUnfinished && window.hasRoom(), restMs: restMs() };
    },
    isEmpty: () => window.isEmpty(),
    isBusy(shard) {
      const left = leftAt.get(shard);
      if (left !== undefined && performance.now() > left + HAND_OVER_MS) return false;
      return begun.includes(shard) || window.isBusy(shard);
    },
    async settled() {
      await Promise.all(onTheWay);
    },
  };
}

function backoff(failures: number): number {
  const ceiling = Math.min(FIRST_BACKOFF_MS * 2 ** (failures - 1), MAX_BACKOFF_MS);
  return ceiling * (0.5 + Math.random() / 2);
}
