import type { Received } from './receiver.ts';

/** Counts the received webhooks, and checks that each return and event arrives once with a valid signature. */
export class WebhookLedger {
  readonly #byReturn = new Map<number, number>();
  readonly #idsByEvent = new Map<string, Set<string>>();
  readonly #seen = new Set<string>();
  repeated = 0;
  invalid = 0;

  /** @returns true when it is the first valid webhook about its return. */
  add(received: Received): boolean {
    if (!received.valid) {
      this.invalid += 1;
      return false;
    }
    if (this.#seen.has(received.webhookId)) this.repeated += 1;
    this.#seen.add(received.webhookId);
    const ids = this.#idsByEvent.get(received.eventId) ?? new Set();
    this.#idsByEvent.set(received.eventId, ids.add(received.webhookId));
    const id = received.payload.id ?? 0;
    const first = !this.#byReturn.has(id);
    this.#byReturn.set(id, (this.#byReturn.get(id) ?? 0) + 1);
    return first;
  }

  has(returnId: number): boolean {
    return this.#byReturn.has(returnId);
  }

  /** Number of valid webhooks; each id is counted once. */
  get webhooks(): number {
    return this.#seen.size;
  }

  /** Number of events that arrived with more than one id. */
  get doubled(): number {
    return [...this.#idsByEvent.values()].filter((ids) => ids.size > 1).length;
  }
}
