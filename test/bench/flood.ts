import { setTimeout as sleep } from 'node:timers/promises';
import { keepAliveClient } from './keep-alive.ts';
import type { Load, LoadRequest } from './load.ts';
import { monotonicMs } from './stats.ts';

export interface Flood extends Load {
  readonly perSecond: number;
  readonly seconds: number;
  /** Duration of the same load before the measurement. */
  readonly warmUpSeconds: number;
  /** Whether a rejected client repeats the same request after the pause of `Retry-After`, instead of sending a new one. */
  readonly isRetrying: boolean;
}

/** The result of a flood. Times start when a request was due. Milliseconds. */
export interface FloodResult {
  /** Number of requests, repeats included. */
  readonly sent: number;
  readonly accepted: number;
  /** Accepted before the last request was due. Later the system was no longer overloaded. */
  readonly acceptedInTime: number;
  readonly acceptedP99: number;
  readonly refused: number;
  readonly refusedP50: number;
  readonly refusedP99: number;
  /** Responses other than 2xx and 503, 503 without `Retry-After`, and failed connections. */
  readonly failed: number;
}

const CONNECTIONS = 512;
/** Interval at which due requests are sent. Milliseconds. */
const TICK_MS = 5;

/** Open loop: each request is sent at its time, also when earlier ones have no response. */
export async function flood(o: Flood): Promise<FloodResult> {
  const client = keepAliveClient(o, CONNECTIONS);
  const requests = o.lists.flat();
  const book = newCounts();
  const again = createAgain();
  const began = monotonicMs();
  const countedFrom = began + o.warmUpSeconds * 1_000;
  const end = countedFrom + o.seconds * 1_000;

  const send = async (request: LoadRequest, due: number): Promise<void> => {
    const { status, retryAfterS } = await client.send(request);
    const now = monotonicMs();
    const isRefused = status === 503 && retryAfterS >= 1;
    if (isRefused && o.isRetrying) again.add(request, retryAfterS, now);
    if (due < countedFrom) return;
    if (isRefused) book.refusedMs.push(now - due);
    else if (status < 200 || status > 299) book.failed += 1;
    else {
      book.acceptedMs.push(now - due);
      if (now < end) book.acceptedInTime += 1;
    }
  };

  const pending = new Set<Promise<void>>();
  const count = Math.round((o.perSecond * (end - began)) / 1_000);
  for (let at = 0; at < count; ) {
    for (const now = monotonicMs(); at < count; at += 1) {
      const due = began + (at * 1_000) / o.perSecond;
      if (due > now) break;
      const request = again.take(now) ?? requests[at % requests.length];
      if (!request) throw new Error('there is nothing to send');
      if (due >= countedFrom) book.sent += 1;
      const sending = send(request, due).finally(() => pending.delete(sending));
      pending.add(sending);
    }
    await sleep(TICK_MS);
  }
  await Promise.all(pending);
  client.close();
  return resultOf(book);
}

interface Counts {
  readonly acceptedMs: number[];
  readonly refusedMs: number[];
  sent: number;
  acceptedInTime: number;
  failed: number;
}

function newCounts(): Counts {
  return { acceptedMs: [], refusedMs: [], sent: 0, acceptedInTime: 0, failed: 0 };
}

function resultOf({ acceptedMs, refusedMs, ...book }: Counts): FloodResult {
  return {
    ...book,
    accepted: acceptedMs.length,
    acceptedP99: quantile(acceptedMs, 0.99),
    refused: refusedMs.length,
    refusedP50: quantile(refusedMs, 0.5),
    refusedP99: quantile(refusedMs, 0.99),
  };
}

/** Requests that will be repeated, each from its time on. */
function createAgain() {
  /** By pause, so that each list is ordered by time. */
  const lists = new Map<number, { readonly request: LoadRequest; readonly from: number }[]>();
  return {
    add(request: LoadRequest, pauseS: number, now: number): void {
      const list = lists.get(pauseS) ?? [];
      lists.set(pauseS, list);
      list.push({ request, from: now + pauseS * 1_000 });
    },
    take(now: number): LoadRequest | undefined {
      const list = [...lists.values()].find(([first]) => first && first.from <= now);
      return list?.shift()?.request;
    },
  };
}

/** The result of a closed loop. */
export interface ClosedResult {
  readonly perSecond: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
}

/**
 * Closed loop: this many connections each send one request after another.
 *
 * @throws Error when a response is not 2xx.
 */
export async function closedLoop(
  o: Load & { connections: number; seconds: number },
): Promise<ClosedResult> {
  const client = keepAliveClient(o, o.connections);
  const times: number[] = [];
  const end = monotonicMs() + o.seconds * 1_000;
  const loop = async (requests: readonly LoadRequest[]): Promise<void> => {
    for (let at = 0; monotonicMs() < end; at += 1) {
      const request = requests[at % requests.length];
      if (!request) throw new Error('there is nothing to send');
      const begun = monotonicMs();
      const { status } = await client.send(request);
      if (status < 200 || status > 299) throw new Error(`status ${status} below capacity`);
      times.push(monotonicMs() - begun);
    }
  };
  const list = (at: number) => o.lists[at % o.lists.length] ?? [];
  await Promise.all(Array.from({ length: o.connections }, (_, at) => loop(list(at))));
  client.close();
  return {
    perSecond: times.length / o.seconds,
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
  };
}

function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length * q)] ?? 0;
}
