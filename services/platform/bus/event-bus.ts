/** A record to publish. The key decides the order, the value is an encoded event. */
export interface BusRecord {
  readonly key: string;
  readonly value: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

export interface ReceivedRecord extends BusRecord {
  readonly topic: string;
  /** The place of the record in its topic, for logs. Unique within the topic. */
  readonly position: string;
}

/** A handler rejects with this error to get its records again after `pauseMs`. */
export class RetryLaterError extends Error {
  override readonly name = 'RetryLaterError';
  readonly pauseMs: number;

  constructor(pauseMs: number, o: { readonly cause: unknown }) {
    super('the record is tried again later', o);
    this.pauseMs = pauseMs;
  }
}

export interface Subscription {
  /** Members of one group share the records; every group gets all of them. */
  readonly group: string;
  readonly topics: readonly string[];
  /**
   * Resolves when the records are handled. When it rejects, the bus passes them again, after growing pauses or after
   * the pause of a {@link RetryLaterError}. Records of other keys continue.
   */
  readonly handle: (records: readonly ReceivedRecord[]) => Promise<void>;
}

/**
 * Carries events between services: at least once per group, in order per key. A key that fails does not block other
 * keys.
 */
export interface EventBus {
  /** Resolves when the records are stored. If it rejects, some may be missing, so the caller must publish all again. */
  publish(topic: string, records: readonly BusRecord[]): Promise<void>;
  /** Starts to listen. `stop` waits for handlers in flight. The group's next subscriber gets the remaining records. */
  subscribe(s: Subscription): Promise<{ stop(): Promise<void> }>;
  /**
   * Whether the group has handled all records that were published to the topic before this call. If it has, any event
   * that it has not handled is lost. May wait some seconds. Rejects when the bus is unavailable.
   */
  hasCaughtUp(group: string, topic: string, signal: AbortSignal): Promise<boolean>;
  /** Rejects when the bus is unavailable. */
  health(): Promise<void>;
  close(): Promise<void>;
}

/** Returns the topic of a service's events. */
export function eventsTopic(service: string): string {
  return `rms.${service}.events.v1`;
}
