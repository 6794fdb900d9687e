import type { PageRequest, Pointer, ShardCursor, ShardPage, WaitingEvent } from './store.ts';

/** Events held in memory at most, until their pointers are deleted. */
const MAX_EVENTS = 4_000;
/** Their bodies: every event may carry a large snapshot. */
const MAX_BYTES = 16 * 1024 * 1024;
/** Of one key, so that one which is stuck leaves room for the others. */
const MAX_PER_KEY = 250;
/** Rows looked at in one shard at a time. */
const MAX_PAGE = 500;

/** The events of one key that wait, in order, and those on their way to the bus. */
export interface Lane {
  readonly key: string;
  readonly shard: number;
  waiting: WaitingEvent[];
  sending: readonly WaitingEvent[];
  failures: number;
  /** Nothing is to be sent before. Milliseconds of `performance.now()`. */
  retryAt: number;
}

interface ShardPointer extends Pointer {
  readonly shard: number;
}

/** A way through a shard as it was at one moment, from its beginning to its end. */
interface Pass {
  cursor: ShardCursor;
  /** Something was committed since: another pass is due. */
  isLeft: boolean;
  /** Keys of which something was left out: nothing behind it may overtake. */
  readonly skipped: Set<string>;
}

/**
 * What a relay holds of the outbox: a bounded number of events, by key. Rows commit out of order, so
 * a pass that reached the end of a shard is followed by one from its beginning; a full page is
 * followed by the next, so that no key's backlog is read over and over.
 */
export class OutboxWindow {
  readonly lanes = new Map<string, Lane>();
  readonly #held = new Set<bigint>();
  readonly #passes = new Map<number, Pass>();
  #shards: ReadonlySet<number> = new Set();
  #bytes = 0;
  #done: ShardPointer[] = [];

  hasRoom(): boolean {
    return this.#held.size < MAX_EVENTS && this.#bytes < MAX_BYTES;
  }

  /** What to ask the outbox for. */
  request(shards: readonly number[]): PageRequest {
    const room = MAX_EVENTS - this.#held.size;
    for (const lane of this.lanes.values()) {
      if (isFull(lane)) this.#pass(lane.shard).skipped.add(lane.key);
    }
    const passes = shards.map((shard) => this.#pass(shard));
    return {
      cursors: passes.map(({ cursor }) => cursor),
      exceptPositions: [...this.#held],
      exceptKeys: passes.flatMap(({ skipped }) => [...skipped]),
      limit: Math.min(MAX_PAGE, Math.ceil(room / shards.length)),
      maxBytes: MAX_BYTES - this.#bytes,
    };
  }

  /** Takes in what was found. Says whether there is more to look at. */
  take(pages: readonly ShardPage[]): boolean {
    let isMore = false;
    for (const { shard, events, next, isLeft } of pages) {
      const pass = this.#pass(shard);
      for (const event of events) this.#add(event, pass);
      pass.isLeft ||= isLeft;
      if (next === undefined) this.#passes.delete(shard);
      else pass.cursor = next;
      isMore ||= next !== undefined || pass.isLeft;
    }
    return isMore;
  }

  /** Begins to send what waits of the key, at most `limit` events. */
  begin(lane: Lane, limit: number): readonly WaitingEvent[] {
    lane.sending = lane.waiting.splice(0, limit);
    return lane.sending;
  }

  /** What was sent is with the bus: its pointers may be deleted. */
  accept(lane: Lane): void {
    for (const { shopId, day, position, shard, bytes } of lane.sending) {
      this.#done.push({ shopId, day, position, shard });
      this.#bytes -= bytes;
    }
    lane.sending = [];
    lane.failures = 0;
    if (lane.waiting.length === 0) this.lanes.delete(lane.key);
  }

  /** What was sent may not have arrived: it is the next of its key again. */
  refuse(lane: Lane, retryAt: number): void {
    lane.waiting.unshift(...lane.sending);
    lane.sending = [];
    lane.failures += 1;
    lane.retryAt = retryAt;
    if (!this.#shards.has(lane.shard)) this.#drop(lane);
  }

  /** Pointers that may be deleted; they count as held until they are. */
  done(): readonly ShardPointer[] {
    return this.#done;
  }

  forget(count: number): void {
    for (const { position } of this.#done.splice(0, count)) this.#held.delete(position);
  }

  /**
   * These are our shards now: drops what waits in others; what is on its way stays. Answers which
   * were ours before and are no longer.
   */
  keep(shards: readonly number[]): readonly number[] {
    const before = [...this.#shards];
    this.#shards = new Set(shards);
    const left = before.filter((shard) => !this.#shards.has(shard));
    if (left.length === 0) return left;
    for (const shard of left) this.#passes.delete(shard);
    for (const lane of this.lanes.values()) if (!this.#shards.has(lane.shard)) this.#drop(lane);
    return left;
  }

  /** Something of the shard is on its way, or is with the bus and not yet forgotten. */
  isBusy(shard: number): boolean {
    const lanes = [...this.lanes.values()];
    return (
      lanes.some((lane) => lane.shard === shard && lane.sending.length > 0) ||
      this.#done.some((pointer) => pointer.shard === shard)
    );
  }

  #drop(lane: Lane): void {
    for (const { position, bytes } of lane.waiting.splice(0)) {
      this.#held.delete(position);
      this.#bytes -= bytes;
    }
    if (lane.sending.length === 0) this.lanes.delete(lane.key);
  }

  isEmpty(): boolean {
    return this.#held.size === 0;
  }

  #pass(shard: number): Pass {
    const pass = this.#passes.get(shard) ?? startPass(shard);
    this.#passes.set(shard, pass);
    return pass;
  }

  #add(event: WaitingEvent, pass: Pass): void {
    const { key } = event.record;
    const lane = this.lanes.get(key) ?? newLane(key, event.shard);
    if (isFull(lane)) pass.skipped.add(key);
    if (pass.skipped.has(key) || this.#held.has(event.position)) return;
    this.lanes.set(key, lane);
    lane.waiting.push(event);
    this.#held.add(event.position);
    this.#bytes += event.bytes;
  }
}

function startPass(shard: number): Pass {
  const cursor = { shard, after: 0n, snapshot: undefined };
  return { cursor, isLeft: false, skipped: new Set() };
}

function newLane(key: string, shard: number): Lane {
  return { key, shard, waiting: [], sending: [], failures: 0, retryAt: 0 };
}

function isFull(lane: Lane): boolean {
  return lane.waiting.length + lane.sending.length >= MAX_PER_KEY;
}
