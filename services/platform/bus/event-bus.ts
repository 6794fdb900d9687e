/** A record to publish. Records with one key stay in order. The value is an encoded event. */
export interface BusRecord {
  readonly key: string;
  readonly value: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

export interface ReceivedRecord extends BusRecord {
  readonly topic: string;
  /** The position of the record in its topic, for logs. Unique in the topic. */
  readonly position: string;
}

/** The error with which a handler asks the bus to pass its records again after `pauseMs`. */
export class RetryLaterError extends Error {
  override readonly name = 'RetryLaterError';
  readonly pauseMs: number;

  constructor(pauseMs: number, o: { readonly cause: unknown }) {
    super('the record is tried again later', o);
    this.pauseMs = pauseMs;
  }
}

export interface Subscription {
  /** The members of a group share the records of the topics. Each group gets every record. */
  readonly group: string;
  readonly topics: readonly string[];
  /**
   * Resolves when the records are handled. When it rejects, the bus passes the same records again: after the pause of a
   * {@link RetryLaterError}, or else after pauses that grow. Records of other keys continue.
   */
  readonly handle: (records: readonly ReceivedRecord[]) => Promise<void>;
}

/**
 * Carries events between services: at least once per group, in order per key. A key that fails does not block other
 * keys.
 */
export interface EventBus {
  /**
   * Resolves when the bus has stored the records. When it rejects, some may not be stored, so the caller must publish
   * all of them again.
   */
  publish(topic: string, records: readonly BusRecord[]): Promise<void>;
  /**
   * Starts to listen. `stop` waits for handlers in flight. The records that are left go to the group's next subscriber.
   */
  subscribe(s: Subscription): Promise<{ stop(): Promise<void> }>;
  /**
   * Whether the group has handled all records that were published to the topic before this call. If it has, an event
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
