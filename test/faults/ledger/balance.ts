/** A delivery that must reach the sink: a stored event and a subscription to its trigger. */
export interface Due {
  readonly eventId: string;
  readonly trigger: string;
  readonly path: string;
  /** When the event's transaction began. Milliseconds since the epoch. */
  readonly at: number;
  /** When the sink had accepted the request and sent its response. */
  deliveredAt?: number;
}

/** Compares due deliveries with the requests that the sink accepted. */
export interface Balance {
  /** Adds a stored event. A repeated event has no effect. */
  owe(due: Due): void;
  /**
   * Adds an accepted request.
   *
   * @param at milliseconds since the epoch.
   */
  arrive(eventId: string, path: string, at: number): void;
  all(): readonly Due[];
  missing(): readonly Due[];
}

/**
 * Events and arrivals may be added in any order: an event may be delivered after the stored events were read and before
 * the arrivals are read.
 */
export function createBalance(): Balance {
  const dues = new Map<string, Due>();
  const missing = new Map<string, Due>();
  const early = new Map<string, number>();
  const keyOf = (eventId: string, path: string): string => `${eventId} ${path}`;
  return {
    owe(due) {
      const key = keyOf(due.eventId, due.path);
      if (dues.has(key)) return;
      dues.set(key, due);
      const deliveredAt = early.get(key);
      early.delete(key);
      if (deliveredAt === undefined) missing.set(key, due);
      else due.deliveredAt = deliveredAt;
    },
    arrive(eventId, path, at) {
      const key = keyOf(eventId, path);
      const due = missing.get(key);
      if (due) {
        due.deliveredAt = at;
        missing.delete(key);
      } else if (!dues.has(key) && !early.has(key)) early.set(key, at);
    },
    all: () => [...dues.values()],
    missing: () => [...missing.values()],
  };
}
