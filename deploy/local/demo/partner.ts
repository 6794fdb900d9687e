import { setTimeout as sleep } from 'node:timers/promises';
import { Durations } from './percentiles.ts';

/** Time limit for retries while the stack is unavailable. Milliseconds. */
export const UNAVAILABLE_MS = 180_000;

/** Timeout of one request. Milliseconds. */
const TIMEOUT_MS = 15_000;

export interface RestRequest {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  /** Idempotency key. */
  readonly key?: string;
}

export interface RestResponse {
  readonly status: number;
  readonly body: unknown;
}

/** The return details that the demo day needs. */
export interface Details {
  readonly id: number;
  readonly state: string;
  readonly refund: string;
  readonly refunds: readonly { readonly amount: string }[];
  readonly line_items: readonly {
    readonly line_item_id: number;
    readonly provider_line_item_id: number | null;
  }[];
}

/**
 * A partner's REST client. It repeats a call while the stack is unavailable: no connection, no response, 429 or 503. It
 * records the duration of the last attempt of each call.
 */
export class Partner {
  repeats = 0;
  readonly #baseUrl: string;
  readonly #key: string;
  readonly #durations: Map<string, Durations>;

  /** @param durations where the durations are recorded; several clients may share it. */
  constructor(baseUrl: string, key: string, durations = new Map<string, Durations>()) {
    this.#baseUrl = baseUrl;
    this.#key = key;
    this.#durations = durations;
  }

  /**
   * Sends a request, and returns the response.
   *
   * @param name of the group in which its duration is recorded.
   * @throws Error when the stack stays unavailable, or responds with a 5xx other than 503.
   */
  async call(name: string, request: RestRequest): Promise<RestResponse> {
    const deadline = Date.now() + UNAVAILABLE_MS;
    for (let attempt = 0; ; attempt += 1) {
      const started = performance.now();
      const response = await this.#try(request);
      if (response && response.status !== 503 && response.status !== 429) {
        this.#record(name, performance.now() - started);
        if (response.status >= 500)
          throw new Error(`${name}: ${response.status} ${JSON.stringify(response.body)}`);
        return response;
      }
      if (Date.now() > deadline)
        throw new Error(`${name}: no response for ${UNAVAILABLE_MS / 1000} s`);
      this.repeats += 1;
      await sleep(Math.min(1_000, 50 * 2 ** attempt));
    }
  }

  /** Reads a return. @param query selects it. Undefined when there is no such return. */
  async details(query: string): Promise<Details | undefined> {
    const path = `/api/2026-10/warehouse/return/details?${query}`;
    const { status, body } = await this.call('read a return', { method: 'GET', path });
    return status === 200 ? (body as Details) : undefined;
  }

  async #try({ method, path, body, key }: RestRequest): Promise<RestResponse | undefined> {
    try {
      const response = await fetch(`${this.#baseUrl}${path}`, {
        method,
        headers: {
          'X-Authorization': this.#key,
          ...(body !== undefined && { 'Content-Type': 'application/json' }),
          ...(key !== undefined && { 'Idempotency-Key': key }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      const text = await response.text();
      return { status: response.status, body: text ? JSON.parse(text) : undefined };
    } catch {
      // No connection, no response in time, or a body that is not JSON and so not from the stack.
      return undefined;
    }
  }

  #record(name: string, ms: number): void {
    const durations = this.#durations.get(name) ?? new Durations();
    durations.add(ms);
    this.#durations.set(name, durations);
  }
}

const PATH = '/api/2026-10/webhooks';

interface Subscription {
  readonly id: number;
  readonly url: string;
  readonly secret: string;
}

/** Subscribes to `return.closed` at this URL, and returns the subscription with its secret. */
export async function subscribe(partner: Partner, url: string): Promise<Subscription> {
  // If the response of an earlier attempt was lost, a subscription with an unknown secret exists; delete it first.
  await unsubscribe(partner, url);
  const body = { topic: 'return', trigger: 'return.closed', url };
  const { status, body: created } = await partner.call('subscribe', {
    method: 'POST',
    path: PATH,
    body,
  });
  if (status !== 201) throw new Error(`subscribe: ${status} ${JSON.stringify(created)}`);
  return created as Subscription;
}

/** Deletes all subscriptions at this URL. */
export async function unsubscribe(partner: Partner, url: string): Promise<void> {
  const { status, body } = await partner.call('list webhooks', { method: 'GET', path: PATH });
  if (status !== 200) throw new Error(`list webhooks: ${status} ${JSON.stringify(body)}`);
  for (const subscription of body as readonly Subscription[]) {
    if (subscription.url !== url) continue;
    const path = `${PATH}/${subscription.id}`;
    await partner.call('unsubscribe', { method: 'DELETE', path });
  }
}
