import { setTimeout as sleep } from 'node:timers/promises';
import type { Load, LoadRequest } from './http-load.ts';
import { keepAliveClient } from './keep-alive.ts';
import { monotonicMs } from './stats.ts';

export interface Flood extends Load {
  readonly perSecond: number;
  readonly seconds: number;
  /** How often a client that is refused sends the same again, each time after the pause that it was told. */
  readonly retries: number;
}

/** What became of a flood. Times from when a request was due, those of refusals from when it was sent. Milliseconds. */
export interface FloodResult {
  readonly sent: number;
  readonly accepted: number;
  /** Accepted while there was more to send: what came later was no longer overload. */
  readonly acceptedInTime: number;
  readonly acceptedP99: number;
  readonly refused: number;
  readonly refusedP99: number;
  /** Answers other than 2xx and 503, refusals without `Retry-After`, and connections that failed. */
  readonly failed: number;
}

const CONNECTIONS = 512;
/** How often what is due is sent. Milliseconds. */
const TICK_MS = 5;

/** Open loop: each request at its time, whatever became of those before. */
export async function flood(o: Flood): Promise<FloodResult> {
  const client = keepAliveClient(o, CONNECTIONS);
  const requests = o.lists.flat();
  const acceptedMs: number[] = [];
  const refusedMs: number[] = [];
  let acceptedInTime = 0;
  let failed = 0;
  const started = monotonicMs();

  const send = async (request: LoadRequest, due: number): Promise<void> => {
    for (let attempt = 0; attempt <= o.retries; attempt += 1) {
      const begun = monotonicMs();
      const { status, retryAfterS } = await client.send(request);
      const now = monotonicMs();
      if (status >= 200 && status < 300) {
        acceptedMs.push(now - due);
        if (now < started + o.seconds * 1_000) acceptedInTime += 1;
        return;
      }
      if (status !== 503 || !(retryAfterS >= 1)) {
        failed += 1;
        return;
      }
      refusedMs.push(now - begun);
      if (attempt < o.retries) await sleep(retryAfterS * 1_000);
    }
  };

  const pending: Promise<void>[] = [];
  const count = Math.round(o.perSecond * o.seconds);
  while (pending.length < count) {
    const due = Math.min(count, Math.floor(((monotonicMs() - started) * o.perSecond) / 1_000));
    while (pending.length < due) {
      const request = requests[pending.length % requests.length];
      if (!request) throw new Error('there is nothing to send');
      pending.push(send(request, started + (pending.length * 1_000) / o.perSecond));
    }
    await sleep(TICK_MS);
  }
  await Promise.all(pending);
  client.close();
  return {
    sent: count,
    accepted: acceptedMs.length,
    acceptedInTime,
    acceptedP99: quantile(acceptedMs, 0.99),
    refused: refusedMs.length,
    refusedP99: quantile(refusedMs, 0.99),
    failed,
  };
}

/** What was served in a closed loop. */
export interface ClosedResult {
  readonly perSecond: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
}

/**
 * As many requests as so many connections get answered, one after another.
 *
 * @throws Error on any other answer than 2xx.
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
      if (status < 200 || status > 299) throw new Error(`answered ${status} below capacity`);
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
