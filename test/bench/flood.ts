import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import type { Load, LoadRequest } from './http-load.ts';
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

const CONNECTIONS = 256;
/** How often what is due is sent. Milliseconds. */
const TICK_MS = 5;

/** Open loop: each request at its time, whatever became of those before. */
export async function flood(o: Flood): Promise<FloodResult> {
  const pool = new Pool(o.origin, { connections: CONNECTIONS });
  const requests = o.lists.flat();
  const acceptedMs: number[] = [];
  const refusedMs: number[] = [];
  let acceptedInTime = 0;
  let failed = 0;
  const started = monotonicMs();

  const send = async (request: LoadRequest, due: number): Promise<void> => {
    for (let attempt = 0; attempt <= o.retries; attempt += 1) {
      const begun = monotonicMs();
      const { status, retryAfterS } = await answerOf(pool, request, o.headers);
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
  await pool.close();
  return {
    sent: count,
    accepted: acceptedMs.length,
    acceptedInTime,
    acceptedP99: p99(acceptedMs),
    refused: refusedMs.length,
    refusedP99: p99(refusedMs),
    failed,
  };
}

async function answerOf(pool: Pool, { method, path, body }: LoadRequest, headers: Load['headers']) {
  const answer = await pool
    .request({ method, path, headers, ...(body !== undefined && { body }) })
    .catch(() => undefined);
  await answer?.body.dump().catch(() => {});
  return {
    status: answer?.statusCode ?? 0,
    retryAfterS: Number(answer?.headers['retry-after'] ?? 0),
  };
}

function p99(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length * 0.99)] ?? 0;
}
