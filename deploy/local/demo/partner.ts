import { setTimeout as sleep } from 'node:timers/promises';
import { Durations } from './percentiles.ts';

/** How long the partner waits for a stack that is away before giving up. Milliseconds. */
const AWAY_MS = 180_000;

/** Longest wait for one answer. Milliseconds. */
const ANSWER_MS = 15_000;

export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

/** Return details, as far as the day needs them. */
export interface Details {
  readonly id: number;
  readonly state: string;
  readonly line_items: readonly { readonly line_item_id: number }[];
}

/**
 * A partner's REST client that repeats a call while the stack is away: no connection, no answer,
 * 429 and 503. Durations count each answered call, from its last attempt.
 */
export class Partner {
  readonly durations = new Map<string, Durations>();
  /** Calls that were made again. */
  repeats = 0;
  readonly #baseUrl: string;
  readonly #key: string;

  constructor(baseUrl: string, key: string) {
    this.#baseUrl = baseUrl;
    this.#key = key;
  }

  /** @throws Error when the stack stays away, or answers with a 5xx other than 503. */
  async call(name: string, method: string, path: string, body?: unknown): Promise<Answer> {
    const deadline = Date.now() + AWAY_MS;
    for (let attempt = 0; ; attempt += 1) {
      const started = performance.now();
      const answer = await this.#try(method, path, body);
      if (answer && answer.status !== 503 && answer.status !== 429) {
        this.#record(name, performance.now() - started);
        if (answer.status >= 500)
          throw new Error(`${name}: ${answer.status} ${JSON.stringify(answer.body)}`);
        return answer;
      }
      if (Date.now() > deadline) throw new Error(`${name}: no answer for ${AWAY_MS / 1000} s`);
      this.repeats += 1;
      await sleep(Math.min(1_000, 50 * 2 ** attempt));
    }
  }

  async details(query: string): Promise<Details | undefined> {
    const path = `/api/2026-10/warehouse/return/details?${query}`;
    const { status, body } = await this.call('read a return', 'GET', path);
    return status === 200 ? (body as Details) : undefined;
  }

  async #try(method: string, path: string, body: unknown): Promise<Answer | undefined> {
    try {
      const response = await fetch(`${this.#baseUrl}${path}`, {
        method,
        headers: {
          'X-Authorization': this.#key,
          ...(body !== undefined && { 'Content-Type': 'application/json' }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      const text = await response.text();
      return { status: response.status, body: text ? JSON.parse(text) : undefined };
    } catch {
      return undefined; // no connection, or cut off: the stack is away
    }
  }

  #record(name: string, ms: number): void {
    const durations = this.durations.get(name) ?? new Durations();
    durations.add(ms);
    this.durations.set(name, durations);
  }
}
