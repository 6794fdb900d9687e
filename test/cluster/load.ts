import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** How often each answer came. An answer is an HTTP status, or the code of a network error. */
export type AnswerCounts = Readonly<Record<string, number>>;

export interface LoadOptions {
  /** Address of the gateway. */
  readonly url: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** As many callers, which send as fast as they can, each request on a connection of its own. */
  readonly hurried?: number;
  /** Called with the first response of each status from 500 on, so that a run shows why it failed. */
  readonly say?: (text: string) => void;
}

/** Between two requests of one caller: all together stay below the rate limit of a key. Milliseconds. */
const PAUSE_MS = 1_000;
/** A caller whose connection is mostly idle. Milliseconds. */
const IDLE_PAUSE_MS = 3_000;
const DEADLINE_MS = 30_000;
/** Characters of a body that are shown. */
const BODY_SHOWN = 300;

/** Callers that read all the time: with kept connections, with one that is mostly idle, and with new ones. */
export function startLoad(o: LoadOptions): { stop(): Promise<AnswerCounts> } {
  const stopping = new AbortController();
  const counts: Record<string, number> = {};
  const count = (answer: string, detail: string): void => {
    if (counts[answer] === undefined && Number(answer) >= 500) o.say?.(detail);
    counts[answer] = (counts[answer] ?? 0) + 1;
  };
  const caller = async (agent: Agent, pauseMs: number): Promise<void> => {
    while (!stopping.signal.aborted) {
      const { answer, detail } = await call(o, agent);
      count(answer, detail);
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
      return counts;
    },
  };
}

interface Answer {
  /** The status, or the code of a network error. */
  readonly answer: string;
  /** The beginning of the body, with the id of the request. */
  readonly detail: string;
}

function call({ url, path, headers }: LoadOptions, agent: Agent): Promise<Answer> {
  return new Promise((resolve) => {
    const end = (answer: string, detail = '') => resolve({ answer, detail });
    const sent = request(`${url}${path}`, { agent, headers, timeout: DEADLINE_MS }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        if (body.length < BODY_SHOWN) body += chunk.slice(0, BODY_SHOWN);
      });
      response.on('error', () => end('BODY'));
      response.on('end', () => {
        const id = String(response.headers['x-request-id']);
        end(String(response.statusCode), `${response.statusCode} ${body} (request ${id})`);
      });
    });
    sent.on('timeout', () => sent.destroy(new Error('TIMEOUT')));
    sent.on('error', (error) => end('code' in error ? String(error.code) : error.message));
    sent.end();
  });
}
