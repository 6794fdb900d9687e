import { setTimeout as sleep } from 'node:timers/promises';
import autocannon from 'autocannon';
import { Pool } from 'undici';
import { type ClosedResult, closedLoop, type Flood, type FloodResult, flood } from './flood.ts';
import { serveParent } from './ipc.ts';
import type { Load, LoadRequest } from './load.ts';
import { monotonicMs } from './stats.ts';

/** In a body, each request replaces it with a new number. */
const UNIQUE = '{unique}';

export interface LoadResult {
  readonly requests: number;
  readonly seconds: number;
  /** Responses other than 2xx, and failed connections. */
  readonly failed: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
}

let unique = 0;

const methods = {
  flood: (o: Flood): Promise<FloodResult> => flood(o),
  closedLoop: (o: Load & { connections: number; seconds: number }): Promise<ClosedResult> =>
    closedLoop(o),

  /** Closed loop: this many connections each send one request after another. */
  async saturate(o: Load & { connections: number; seconds: number }): Promise<LoadResult> {
    let next = 0;
    const result = await autocannon({
      url: o.origin,
      connections: o.connections,
      duration: o.seconds,
      headers: o.headers,
      setupClient(client) {
        const list = o.lists[next % o.lists.length] ?? [];
        next += 1;
        client.setRequests(list.map(toRequest));
      },
    });
    return {
      requests: result['2xx'],
      seconds: result.duration,
      failed: result.non2xx + result.errors,
      p50: result.latency.p50,
      p99: result.latency.p99,
    };
  },

  /**
   * Open loop: each request is sent at its time, also when earlier ones have no response. Returns when each was due, and
   * the bodies of the 2xx responses, in the order of the requests.
   */
  async schedule(o: Load & { perSecond: number }) {
    const pool = new Pool(o.origin, { connections: 64 });
    const started = monotonicMs();
    const due: number[] = [];
    const pending: Promise<string | undefined>[] = [];
    for (const [at, request] of o.lists.flat().entries()) {
      const time = started + (at * 1_000) / o.perSecond;
      const early = time - monotonicMs();
      if (early > 0) await sleep(early);
      due.push(time);
      pending.push(bodyOf(pool, request, o.headers));
    }
    const bodies = (await Promise.all(pending)).filter((body) => body !== undefined);
    await pool.close();
    return { due, bodies, failed: pending.length - bodies.length };
  },
};
export type HttpLoadMethods = typeof methods;

function toRequest({ body, ...request }: LoadRequest): autocannon.Request {
  if (!body?.includes(UNIQUE)) return { ...request, ...(body !== undefined && { body }) };
  return {
    ...request,
    setupRequest(made) {
      unique += 1;
      return { ...made, body: body.replaceAll(UNIQUE, String(unique)) };
    },
  };
}

/** The body of a 2xx response; undefined for another one. */
async function bodyOf(pool: Pool, request: LoadRequest, headers: Load['headers']) {
  const { method, path, body } = request;
  const answer = await pool
    .request({
      ...{ method, path, headers: { ...headers, ...request.headers } },
      ...(body !== undefined && { body }),
    })
    .catch(() => undefined);
  const text = await answer?.body.text();
  return answer && answer.statusCode >= 200 && answer.statusCode < 300 ? text : undefined;
}

serveParent(methods);
