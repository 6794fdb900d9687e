import type { Arrival, Ending } from './protocol.ts';

/** The known parts of a request. `endedAt` is missing while it is open. */
export interface Receipt extends Arrival {
  endedAt?: number;
  answered?: boolean;
}

/** All requests that the sink received, by number and by webhook-id. */
export class ArrivalLog {
  readonly #byNumber = new Map<number, Receipt>();
  readonly #byId = new Map<string, Receipt[]>();
  readonly #byPath = new Map<string, Receipt[]>();
  readonly #open = new Set<Receipt>();

  add(arrivals: readonly Arrival[], endings: readonly Ending[]): void {
    for (const arrival of arrivals) {
      const receipt: Receipt = { ...arrival };
      this.#byNumber.set(receipt.number, receipt);
      append(this.#byId, receipt.webhookId, receipt);
      append(this.#byPath, receipt.path, receipt);
      this.#open.add(receipt);
    }
    for (const { number, at, answered } of endings) {
      const receipt = this.#byNumber.get(number);
      if (!receipt) continue;
      receipt.endedAt = at;
      receipt.answered = answered;
      this.#open.delete(receipt);
    }
  }

  /** Requests without a response. */
  open(): Receipt[] {
    return [...this.#open];
  }

  /** All requests in the order of their arrival. */
  withId(webhookId: string): readonly Receipt[] {
    return this.#byId.get(webhookId) ?? [];
  }

  at(path: string): readonly Receipt[] {
    return this.#byPath.get(path) ?? [];
  }

  ids(paths: ReadonlySet<string>): string[] {
    return [...this.#byId]
      .filter(([, [first]]) => first !== undefined && paths.has(first.path))
      .map(([id]) => id);
  }

  /** Deletes the requests at these paths, after the end of their trial. */
  delete(paths: ReadonlySet<string>): void {
    for (const path of paths) {
      for (const receipt of this.at(path)) {
        this.#byNumber.delete(receipt.number);
        this.#byId.delete(receipt.webhookId);
        this.#open.delete(receipt);
      }
      this.#byPath.delete(path);
    }
  }
}

function append<T>(map: Map<string, T[]>, key: string, value: T): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
