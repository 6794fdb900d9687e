import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import type { ProbeThreadData } from './probe-port.ts';
import type { Readiness } from './probes.ts';

// The thread of `probe-port.ts`.

/** The event loop counts as hanging after so many of its beats were missed. */
const HANGS_AFTER = 15;
/** How long a probe waits for the event loop. The kubelet waits 3 s. Milliseconds. */
const ANSWER_MS = 2_000;
/** For so many beats the last readiness counts while the event loop is too busy to answer. */
const COUNTS_FOR = 15;
const MAX_CONNECTIONS = 64;
const CLIENT_MS = 5_000;

const { host, port, beats, beatMs } = workerData as ProbeThreadData;

let beat = 0;
let missed = 0;
let last: { readonly readiness: Readiness; readonly age: number } | undefined;
// Counted, not timed: after the whole process stood still, nothing was missed.
setInterval(() => {
  const now = Atomics.load(beats, 0);
  missed = now === beat ? missed + 1 : 0;
  beat = now;
  if (last) last = { ...last, age: last.age + 1 };
}, beatMs);

const waiting: (() => void)[] = [];
parentPort?.on('message', (readiness: Readiness) => {
  last = { readiness, age: 0 };
  for (const answer of waiting.splice(0)) answer();
});

const BUSY: Readiness = { ready: false, parts: { gateway: 'does not answer' } };

async function readinessNow(): Promise<Readiness> {
  if (waiting.length === 0) parentPort?.postMessage('readiness');
  await new Promise<void>((answered) => {
    waiting.push(answered);
    setTimeout(answered, ANSWER_MS);
  });
  return last && last.age < COUNTS_FOR ? last.readiness : BUSY;
}

async function answerTo(path: string | undefined): Promise<readonly [number, object]> {
  switch (path) {
    case '/livez':
      return missed < HANGS_AFTER ? [200, { status: 'ok' }] : [503, { status: 'hangs' }];
    case '/readyz': {
      const { ready, parts } = await readinessNow();
      return ready ? [200, { status: 'ok', parts }] : [503, { status: 'unready', parts }];
    }
    default:
      return [404, {}];
  }
}

const server = createServer(
  { headersTimeout: CLIENT_MS, requestTimeout: CLIENT_MS, connectionsCheckingInterval: CLIENT_MS },
  async (req, res) => {
    const [status, body] = await answerTo(req.url);
    res.writeHead(status, { 'Content-Type': 'application/json', Connection: 'close' });
    res.end(JSON.stringify(body));
  },
);
server.maxConnections = MAX_CONNECTIONS;
// The rest of a pipeline gets no answer that would have to be kept.
server.maxRequestsPerSocket = 1;
server.listen(port, host, () => {
  parentPort?.postMessage((server.address() as AddressInfo).port);
});
