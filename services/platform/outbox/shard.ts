import type {
  OpenTransactions,
  ShardMoved,
  ShardPage,
  ShardRequest,
  StoredEvent,
} from './store.ts';

export interface ShardLimits {
  /** Events that are in flight or wait. */
  readonly events: number;
  /** Their bodies, while in flight. */
  readonly bytes: number;
}

/** Of the 8 shards together 4,000 events and 16 MiB. */
export const DEFAULT_LIMITS: ShardLimits = { events: 500, bytes: 2 * 1024 * 1024 };
/** A page that is not published after this time no longer holds up the next one. Milliseconds. */
const HANG_MS = 250;
/** What is published is recorded with the next page, or after this time. Milliseconds. */
const RECORD_MS = 200;
/** Until events that were refused are read again. Milliseconds. */
const RETRY_MS = 500;
/**
 * A shard that another relay is to have waits so long for what is in flight: a broker that hangs
 * must not hold up what goes to the others. What the broker got is published again. Milliseconds.
 */
const HAND_OVER_MS = 5_000;

const UNKNOWN = -1n;

/** Events of one key, in order, that are in flight together. */
export interface Sending {
  readonly key: string;
  readonly events: readonly StoredEvent[];
  readonly page: { left: number };
}

interface Asked extends ShardRequest {
  readonly changes: number;
}

/**
 * What a relay knows of one shard of the outbox: a page of events is read, sent by key, and recorded
 * as published with the request for the next page. A key that the bus refuses or keeps is skipped:
 * its events wait, so that later ones of other keys can be published, and its own never overtake.
 */
export class OutboxShard {
  readonly shard: number;
  readonly #limits: ShardLimits;
  #version = UNKNOWN;
  #position = 0n;
  #open: OpenTransactions = new Map();
  /** Positions that are read and not published, with their key; of those that were just loaded it is unknown. */
  #waiting = new Map<bigint, string | undefined>();
  /** Bytes in flight, by key. */
  readonly #sending = new Map<string, number>();
  /** When each key that was refused may be tried again. */
  readonly #refused = new Map<string, number>();
  #page = { left: 0, until: 0 };
  #asked: Asked | undefined;
  #isDue = true;
  #changes = 0;
  #recorded = 0;
  #recordAt = 0;
  /** When it was given to another relay; undefined while it is ours. */
  #leftAt: number | undefined;

  constructor(shard: number, limits = DEFAULT_LIMITS) {
    this.shard = shard;
    this.#limits = limits;
  }

  /** There may be something to read. */
  notify(): void {
    this.#isDue = true;
  }

  hold(isHeld: boolean, now: number): void {
    if (isHeld) this.#leftAt = undefined;
    else this.#leftAt ??= now;
  }

  /**
   * What to record and read now; undefined when there is nothing. `take` or `endRequest` ends it.
   */
  request(now: number): ShardRequest | undefined {
    const isHeld = this.#leftAt === undefined;
    if (isHeld && !this.#isReady(now)) return undefined;
    const isChanged = this.#changes > this.#recorded;
    const retry = this.#retryable(now);
    const room = this.#room(retry);
    const isReading = isHeld && room > 0 && (this.#isDue || retry.length > 0);
    if (!isReading && !isChanged) return undefined;
    const request = {
      ...{
        shard: this.shard,
        version: this.#version,
        isChanged,
        retry,
        limit: isReading ? room : 0,
      },
      ...{ position: this.#position, open: this.#open, waiting: [...this.#waiting.keys()] },
      maxBytes: this.#limits.bytes - this.#bytes(),
    };
    this.#isDue = this.#isDue && !isReading;
    this.#asked = { ...request, changes: this.#changes };
    return request;
  }

  /** The request, if it was not answered, failed: what it would have read is due again. */
  endRequest(): void {
    if (!this.#asked) return;
    this.#asked = undefined;
    this.#isDue = true;
  }

  /** Takes in what was read: returns what is to be sent now. */
  take(page: ShardPage | ShardMoved, now: number): readonly Sending[] {
    const asked = this.#asked;
    this.#asked = undefined;
    if (!asked || 'isMoved' in page || page.version < 0n) {
      this.#load('isMoved' in page ? page : undefined);
      return [];
    }
    this.#version = page.version;
    if (asked.isChanged) this.#recorded = asked.changes;
    if (asked.limit === 0) return [];
    this.#isDue ||= page.isCut;
    this.#passOn(page);
    this.#forgetMissing(asked.retry, page);
    return this.#send(page, now);
  }

  /** The bus has them. Says whether `request` is to be called. */
  published({ key, events, page }: Sending, now: number): boolean {
    for (const { position } of events) this.#waiting.delete(position);
    this.#refused.delete(key);
    this.#end(key, page);
    if (this.#changes === this.#recorded) this.#recordAt = now + RECORD_MS;
    this.#changes += 1;
    return page.left === 0 || page !== this.#page;
  }

  /** The bus may not have them: they wait. */
  refused({ key, page }: Sending, now: number): void {
    this.#refused.set(key, now + RETRY_MS);
    this.#end(key, page);
  }

  /** Everything that was read is published and recorded, and there is nothing to read. */
  isEmpty(): boolean {
    return !this.#isDue && this.#waiting.size === 0 && this.#isIdle();
  }

  /** Whether another relay that took it now would publish something again: for some seconds after it was left, at most. */
  isBusy(now: number): boolean {
    const isOverdue = this.#leftAt !== undefined && now > this.#leftAt + HAND_OVER_MS;
    return !isOverdue && !this.#isIdle();
  }

  /** Given to another relay, and done with. */
  isOver(): boolean {
    return this.#leftAt !== undefined && this.#isIdle();
  }

  /** When `request` is to be called at the latest. */
  nextAt(now: number): number {
    const isChanged = this.#changes > this.#recorded;
    if (this.#leftAt !== undefined) return isChanged ? now : Number.POSITIVE_INFINITY;
    if (!this.#isReady(now)) return this.#page.until;
    const retry = this.#retryable(now);
    if ((this.#isDue || retry.length > 0) && this.#room(retry) > 0) return now;
    const retries = [...this.#refused.values()].filter((at) => at > now);
    return Math.min(isChanged ? this.#recordAt : Number.POSITIVE_INFINITY, ...retries);
  }

  #isIdle(): boolean {
    return !this.#asked && this.#sending.size === 0 && this.#changes === this.#recorded;
  }

  /** The last page is published, or what is left of it hangs. */
  #isReady(now: number): boolean {
    return this.#page.left === 0 || now >= this.#page.until;
  }

  /** How many events may be read: none while those that wait, or the bodies in flight, fill it. */
  #room(retry: readonly bigint[]): number {
    return this.#bytes() < this.#limits.bytes
      ? this.#limits.events - this.#waiting.size + retry.length
      : 0;
  }

  #bytes(): number {
    let bytes = 0;
    for (const each of this.#sending.values()) bytes += each;
    return bytes;
  }

  /** Positions that wait, without those of keys that are in flight or were refused just now. */
  #retryable(now: number): bigint[] {
    const isFree = (key: string): boolean =>
      !this.#sending.has(key) && now >= (this.#refused.get(key) ?? now);
    return [...this.#waiting]
      .filter(([, key]) => key === undefined || isFree(key))
      .map(([at]) => at);
  }

  #load(moved: ShardMoved | undefined): void {
    this.#version = moved?.version ?? UNKNOWN;
    this.#position = moved?.position ?? 0n;
    this.#open = moved?.open ?? new Map();
    this.#waiting = new Map(moved?.waiting.map((position) => [position, undefined]));
    this.#refused.clear();
    this.#recorded = this.#changes;
    this.#isDue = true;
  }

  /**
   * Moves on to the last event of the page. A transaction in progress that was not before began after the last
   * page was read, so all its positions are greater. One that ended is done with when the page reached `position`.
   */
  #passOn({ events, inProgress, isCut }: ShardPage): void {
    const last = events.at(-1)?.position;
    if (last === undefined) return;
    const open = new Map(inProgress.map((xid) => [xid, this.#open.get(xid) ?? this.#position]));
    if (isCut && last < this.#position) {
      for (const [xid, after] of this.#open) {
        if (!open.has(xid)) open.set(xid, after > last ? after : last);
      }
    }
    this.#open = open;
    if (last > this.#position) this.#position = last;
  }

  /** A release of before has published them, or their day was dropped. */
  #forgetMissing(retry: readonly bigint[], { events, isCut }: ShardPage): void {
    const found = new Set(events.map(({ position }) => position));
    const last = events.at(-1)?.position ?? 0n;
    for (const position of retry) {
      if (!found.has(position) && !(isCut && position > last)) this.#waiting.delete(position);
    }
  }

  #send({ events }: ShardPage, now: number): readonly Sending[] {
    const found = new Set(events.map(({ position }) => position));
    const blocked = new Set(this.#sending.keys());
    for (const [position, key] of this.#waiting) {
      if (key !== undefined && !found.has(position)) blocked.add(key);
    }
    for (const { position, record } of events) this.#waiting.set(position, record.key);
    const byKey = Map.groupBy(events, ({ record }) => record.key);
    const free = [...byKey].filter(([key]) => !blocked.has(key));
    const page = { left: free.length, until: now + HANG_MS };
    this.#page = page;
    for (const [key, ofKey] of free) {
      this.#sending.set(
        key,
        ofKey.reduce((sum, { bytes }) => sum + bytes, 0),
      );
    }
    return free.map(([key, ofKey]) => ({ key, events: ofKey, page }));
  }

  #end(key: string, page: { left: number }): void {
    this.#sending.delete(key);
    page.left -= 1;
  }
}
