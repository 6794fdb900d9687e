import type {
  OpenTransactions,
  ShardMoved,
  ShardPage,
  ShardRequest,
  StoredEvent,
} from './store.ts';

export interface ShardLimits {
  /** Maximum number of events that are in flight or wait. */
  readonly events: number;
  /** Maximum number of bytes in flight. */
  readonly bytes: number;
}

/** The limits for one shard. For all 8 shards together they are 4,000 events and 16 MiB. */
const DEFAULT_LIMITS: ShardLimits = { events: 500, bytes: 2 * 1024 * 1024 };
/** Maximum time for which the next page waits until the current page is published. Milliseconds. */
const HANG_MS = 250;
/** Published events are recorded together with the next read, or at the latest after this time. Milliseconds. */
const RECORD_MS = 200;
/** Pause before an event that the bus rejected is read again. Milliseconds. */
const RETRY_MS = 500;
/**
 * Maximum time for which the handover of a shard to another relay waits for events in flight. After it, events that a
 * hanging broker has stored are published twice. Without this limit, a hanging broker would delay events for other
 * brokers. Milliseconds.
 */
const HAND_OVER_MS = 5_000;

const UNKNOWN = -1n;

/** Events of one key. One send has all of them, in order. */
export interface Sending {
  readonly key: string;
  readonly events: readonly StoredEvent[];
  readonly page: { left: number };
}

interface PendingRequest extends ShardRequest {
  readonly changes: number;
}

/**
 * The state of one outbox shard in a relay.
 *
 * The relay reads a page of events and sends them by key. The request for the next page also records this page as
 * published. When the send of a key fails or hangs, the events of this key wait, and the relay publishes later events
 * of other keys. Events of one key never overtake each other.
 */
export class OutboxShard {
  readonly shard: number;
  readonly #limits: ShardLimits;
  #version = UNKNOWN;
  #position = 0n;
  #open: OpenTransactions = new Map();
  /**
   * The positions of events that were read and are not published, each with its key. The key is undefined until the
   * event is read again.
   */
  #waiting = new Map<bigint, string | undefined>();
  /** Number of bytes in flight, by key. */
  readonly #sending = new Map<string, number>();
  /** For each key that the bus rejected: the time from which it may be tried again. */
  readonly #rejected = new Map<string, number>();
  #page = { left: 0, until: 0 };
  #request: PendingRequest | undefined;
  #isDue = true;
  #changes = 0;
  #recorded = 0;
  #recordAt = 0;
  /** When this relay gave up the shard; undefined while it owns the shard. */
  #releasedAt: number | undefined;

  constructor(shard: number, limits = DEFAULT_LIMITS) {
    this.shard = shard;
    this.#limits = limits;
  }

  /** Notes that the shard may have new events. */
  notify(): void {
    this.#isDue = true;
  }

  assign(isOwned: boolean, now: number): void {
    if (isOwned) this.#releasedAt = undefined;
    else this.#releasedAt ??= now;
  }

  /**
   * Returns the progress to record and the events to read now. Undefined when there is neither. `take` or `endRequest`
   * ends the request.
   */
  request(now: number): ShardRequest | undefined {
    const isOwned = this.#releasedAt === undefined;
    if (isOwned && !this.#isReady(now)) return undefined;
    const isChanged = this.#changes > this.#recorded;
    const retry = this.#retryable(now);
    const capacity = this.#capacity(retry);
    const isReading = isOwned && capacity > 0 && (this.#isDue || retry.length > 0);
    if (!isReading && !isChanged) return undefined;
    const request = {
      shard: this.shard,
      version: this.#version,
      isChanged,
      retry,
      limit: isReading ? capacity : 0,
      position: this.#position,
      open: this.#open,
      waiting: [...this.#waiting.keys()],
      maxBytes: this.#limits.bytes - this.#bytes(),
    };
    this.#isDue = this.#isDue && !isReading;
    this.#request = { ...request, changes: this.#changes };
    return request;
  }

  /** Ends the request. A request without a result has failed, so its read is due again. */
  endRequest(): void {
    if (!this.#request) return;
    this.#request = undefined;
    this.#isDue = true;
  }

  /** Takes the page that the request has read. Returns the events that must be sent now. */
  take(page: ShardPage | ShardMoved, now: number): readonly Sending[] {
    const request = this.#request;
    this.#request = undefined;
    if (!request || 'isMoved' in page || page.version < 0n) {
      this.#load('isMoved' in page ? page : undefined);
      return [];
    }
    this.#version = page.version;
    if (request.isChanged) this.#recorded = request.changes;
    if (request.limit === 0) return [];
    this.#isDue ||= page.isCut;
    this.#advance(page);
    this.#dropMissing(request.retry, page);
    return this.#send(page, now);
  }

  /** Notes that the bus has acknowledged these events. Returns whether `request` must be called now. */
  published({ key, events, page }: Sending, now: number): boolean {
    for (const { position } of events) this.#waiting.delete(position);
    this.#rejected.delete(key);
    this.#end(key, page);
    if (this.#changes === this.#recorded) this.#recordAt = now + RECORD_MS;
    this.#changes += 1;
    return page.left === 0 || page !== this.#page;
  }

  /** Notes that the bus may not have stored these events. They wait until they are tried again. */
  rejected({ key, page }: Sending, now: number): void {
    this.#rejected.set(key, now + RETRY_MS);
    this.#end(key, page);
  }

  /** Whether all events that were read are published and recorded, and the shard has no other events to read. */
  isEmpty(): boolean {
    return !this.#isDue && this.#waiting.size === 0 && this.#isIdle();
  }

  /**
   * Whether another relay that took the shard now would publish some events again. False some seconds after this relay
   * gave up the shard, even if sends still hang.
   */
  isBusy(now: number): boolean {
    const isOverdue = this.#releasedAt !== undefined && now > this.#releasedAt + HAND_OVER_MS;
    return !isOverdue && !this.#isIdle();
  }

  /** Whether this relay gave up the shard and has no more work for it. */
  isDone(): boolean {
    return this.#releasedAt !== undefined && this.#isIdle();
  }

  /** Returns the latest time at which `request` must be called again. */
  nextAt(now: number): number {
    const isChanged = this.#changes > this.#recorded;
    if (this.#releasedAt !== undefined) return isChanged ? now : Number.POSITIVE_INFINITY;
    if (!this.#isReady(now)) return this.#page.until;
    const retry = this.#retryable(now);
    if ((this.#isDue || retry.length > 0) && this.#capacity(retry) > 0) return now;
    const retries = [...this.#rejected.values()].filter((at) => at > now);
    return Math.min(isChanged ? this.#recordAt : Number.POSITIVE_INFINITY, ...retries);
  }

  #isIdle(): boolean {
    return !this.#request && this.#sending.size === 0 && this.#changes === this.#recorded;
  }

  /** Whether the next page may be read: the last page is published, or has hung for too long. */
  #isReady(now: number): boolean {
    return this.#page.left === 0 || now >= this.#page.until;
  }

  /** Returns how many more events may be read within the limits. */
  #capacity(retry: readonly bigint[]): number {
    return this.#bytes() < this.#limits.bytes
      ? this.#limits.events - this.#waiting.size + retry.length
      : 0;
  }

  #bytes(): number {
    let bytes = 0;
    for (const each of this.#sending.values()) bytes += each;
    return bytes;
  }

  /** Returns the positions of waiting events that may be tried again: their keys are not in flight and do not pause. */
  #retryable(now: number): bigint[] {
    const isFree = (key: string): boolean =>
      !this.#sending.has(key) && now >= (this.#rejected.get(key) ?? now);
    return [...this.#waiting]
      .filter(([, key]) => key === undefined || isFree(key))
      .map(([at]) => at);
  }

  #load(moved: ShardMoved | undefined): void {
    this.#version = moved?.version ?? UNKNOWN;
    this.#position = moved?.position ?? 0n;
    this.#open = moved?.open ?? new Map();
    this.#waiting = new Map(moved?.waiting.map((position) => [position, undefined]));
    this.#rejected.clear();
    this.#recorded = this.#changes;
    this.#isDue = true;
  }

  /**
   * Moves the progress to the last event of the page.
   *
   * A transaction that is in progress for the first time began after the last page was read, so all its positions are
   * greater. Of a transaction that has ended, all events are read once the page reaches `position`.
   */
  #advance({ events, inProgress, isCut }: ShardPage): void {
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

  /** Forgets waiting positions whose events were not found, because an operator has deleted them. */
  #dropMissing(retry: readonly bigint[], page: ShardPage): void {
    const { events } = page;
    const found = new Set(events.map(({ position }) => position));
    for (const position of retry) {
      if (!found.has(position) && !isBehind(page, position)) this.#waiting.delete(position);
    }
  }

  /**
   * Returns what must be sent now. A key is blocked while it is in flight, and while an earlier event of it waits that is
   * not in the page. Events behind the page block nothing: they are later than all events of the page.
   */
  #send(page: ShardPage, now: number): readonly Sending[] {
    const { events } = page;
    const found = new Set(events.map(({ position }) => position));
    const blocked = new Set(this.#sending.keys());
    for (const [position, key] of this.#waiting) {
      if (key !== undefined && !found.has(position) && !isBehind(page, position)) blocked.add(key);
    }
    for (const { position, record } of events) this.#waiting.set(position, record.key);
    const byKey = Map.groupBy(events, ({ record }) => record.key);
    const free = [...byKey].filter(([key]) => !blocked.has(key));
    const sent = { left: free.length, until: now + HANG_MS };
    this.#page = sent;
    for (const [key, ofKey] of free) {
      this.#sending.set(
        key,
        ofKey.reduce((total, { bytes }) => total + bytes, 0),
      );
    }
    return free.map(([key, ofKey]) => ({ key, events: ofKey, page: sent }));
  }

  #end(key: string, page: { left: number }): void {
    this.#sending.delete(key);
    page.left -= 1;
  }
}

/** Whether the page was cut before this position. */
function isBehind({ events, isCut }: ShardPage, position: bigint): boolean {
  return isCut && position > (events.at(-1)?.position ?? 0n);
}
