import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** How often each outcome came: an HTTP status, or the code of a network error. */
export type Outcomes = Readonly<Record<string, number>>;

export interface LoadOptions {
  /** Address of the gateway. */
  readonly url: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** As many callers, which send as fast as they can, each request on a connection of its own. */
  readonly hurried?: number;
}

/** Between two requests of one caller: all together stay below the rate limit of a key. Milliseconds. */
const PAUSE_MS = 1_000;
/** A caller whose connection is mostly idle. Milliseconds. */
const IDLE_PAUSE_MS = 3_000;
const DEADLINE_MS = 30_000;

/** Callers that read all the time: with kept connections, with one that is mostly idle, and with new ones. */
export function startLoad(o: LoadOptions): { stop(): Promise<Outcomes> } {
  const stopping = new AbortController();
  const outcomes: Record<string, number> = {};
  const caller = async (agent: Agent, pauseMs: number): Promise<void> => {
    while (!stopping.signal.aborted) {
      const outcome = await call(o, agent);
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      await sleep(pauseMs);
    }
  };
  const kept = new Agent({ keepAlive: true });
  const fresh = new Agent({ keepAlive: false });
  const hurried = Array.from({ length: o.hurried ?? 0 }, () => caller(fresh, 0));
  const callers = [
    ...hurried,
    caller(kept, PAUSE_MS),
    caller(kept, PAUSE_MS),
    caller(fresh, PAUSE_MS),
    caller(new Agent({ keepAlive: true }), IDLE_PAUSE_MS),
  ];
  return {
    async stop() {
      stopping.abort();
      await Promise.all(callers);
      return outcomes;
    },
  };
}

function call({ url, path, headers }: LoadOptions, agent: Agent): Promise<string> {
  return new Promise((resolve) => {
    const sent = request(`${url}${path}`, { agent, headers, timeout: DEADLINE_MS }, (response) => {
      response.on('error', () => resolve('BODY'));
      response.on('end', () => resolve(String(response.statusCode)));
      response.resume();
    });
    sent.on('timeout', () => sent.destroy(new Error('TIMEOUT')));
    sent.on('error', (error) => resolve('code' in error ? String(error.code) : error.message));
    sent.end();
  });
}
