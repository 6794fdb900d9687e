/** A record to publish. The key decides the order, the value is an encoded event. */
export interface BusRecord {
  readonly key: string;
  readonly value: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

export interface ReceivedRecord extends BusRecord {
  readonly topic: string;
  /** The place of the record in its topic, for people. Unique within the topic. */
  readonly position: string;
}

/** A handler rejects with this error to get its records again after the given pause. Milliseconds. */
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
  /** Resolves when the records are stored. When it rejects, any of them may be missing: publish all of them again. */
  publish(topic: string, records: readonly BusRecord[]): Promise<void>;
  /** `stop` waits for the handlers in flight. The group's next subscriber gets the remaining records. */
  subscribe(s: Subscription): Promise<{ stop(): Promise<void> }>;
  /**
   * Whether the group has handled everything that was published to the topic before this call. Events that it has not
   * handled then are lost. May wait some seconds. Rejects when the bus is unavailable.
   */
  hasCaughtUp(group: string, topic: string, signal: AbortSignal): Promise<boolean>;
  /** Rejects when the bus is unavailable. */
  health(): Promise<void>;
  close(): Promise<void>;
}

/** The topic of a service's events. */
export function eventsTopic(service: string): string {
  return `rms.${service}.events.v1`;
}
