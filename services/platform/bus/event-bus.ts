/** What is published: the key decides the order, the value is an encoded event. */
export interface BusRecord {
  readonly key: string;
  readonly value: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

export interface ReceivedRecord extends BusRecord {
  readonly topic: string;
  /** Where the record lies in its topic, for people: unique within the topic, no more. */
  readonly position: string;
}

/** A handler rejects with it when its records are to be given again after this pause. Milliseconds. */
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
   * Resolves when the records are dealt with. While it rejects they are given again, with growing
   * pauses, or after that of a {@link RetryLaterError}; records of other keys go on.
   */
  readonly handle: (records: readonly ReceivedRecord[]) => Promise<void>;
}

/**
 * Carries events between services: at least once per group, in order per key. A key that fails
 * holds up no other.
 */
export interface EventBus {
  /** Resolves once the records are safe. Rejects when any may not be: publish all of them again. */
  publish(topic: string, records: readonly BusRecord[]): Promise<void>;
  /** `stop` waits for the handlers in flight; what is left is given to the group's next subscriber. */
  subscribe(s: Subscription): Promise<{ stop(): Promise<void> }>;
  /**
   * Whether the group has dealt with everything of the topic that was published before this call: what it has not
   * handled then is lost. Waits some seconds for it. Rejects when the bus cannot be reached.
   */
  hasCaughtUp(group: string, topic: string, signal: AbortSignal): Promise<boolean>;
  /** Rejects when the bus cannot be reached. */
  health(): Promise<void>;
  close(): Promise<void>;
}

/** The topic of a service's events. */
export function eventsTopic(service: string): string {
  return `rms.${service}.events.v1`;
}
