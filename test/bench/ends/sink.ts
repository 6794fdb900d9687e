import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { createVerifier } from '../../kit/webhooks/signatures.ts';
import { reportReceived, serveParent } from '../ipc.ts';
import { monotonicMs } from '../stats.ts';

/** The signature of every nth delivery is verified. Verifying all would cost more than the deliveries. */
const VERIFY_EACH = 100;
/** Interval at which the parent gets the number of arrivals. Milliseconds. */
const REPORT_MS = 20;
const ANSWER = Buffer.from('HTTP/1.1 204 No Content\r\n\r\n');
const END_OF_HEAD = Buffer.from('\r\n\r\n');

export interface Arrivals {
  readonly received: number;
  /** Deliveries with a repeated `webhook-id`. */
  readonly repeated: number;
  readonly verified: number;
  readonly invalid: number;
  /** Number of connections that were ever opened. */
  readonly connections: number;
  /** The monotonic time of the first arrival in milliseconds, by key. Empty unless times are recorded. */
  readonly times: ReadonlyMap<string, number>;
}

const seen = new Set<string>();
const verifier = createVerifier();
/** Secrets by path. */
const signed = new Set<string>();
/** The key of the recorded times. `nothing` records none. */
type KeptBy = 'nothing' | 'delivery' | 'event' | 'return';
let keptBy: KeptBy = 'nothing';
const times = new Map<string, number>();
const counts = { received: 0, repeated: 0, verified: 0, invalid: 0, connections: 0 };

/** The behaviour of receivers. */
export interface Receivers {
  /** The shortest and the longest response time. Milliseconds. */
  readonly answerMs?: readonly [number, number];
  /** With a certificate receivers use TLS. */
  readonly certificate?: { readonly cert: string; readonly key: string };
  /** Names of headers as the sender writes them. Lower case by default. */
  readonly names?: { readonly id: string; readonly length: string };
}

/** Any prime: response times then cover the whole range, and are the same in every run. */
const STEP_MS = 37;
let answerMs: Receivers['answerMs'];
let names = { id: 'webhook-id', length: 'content-length' };
let answered = 0;

/** A receiver as cheap as possible in Node. It parses just enough of HTTP to find the end of a request. */
async function listen(o: Receivers): Promise<number> {
  answerMs = o.answerMs;
  names = o.names ?? names;
  const accept = (socket: Socket): void => {
    counts.connections += 1;
    socket.on('error', () => socket.destroy());
    receive(socket);
  };
  const server: Server = o.certificate
    ? createTlsServer({ ...o.certificate, noDelay: true }, accept)
    : createServer({ noDelay: true }, accept);
  server.listen(0, '127.0.0.1', 4_096);
  await once(server, 'listening');
  const address = server.address();
  return typeof address === 'object' && address ? address.port : 0;
}

function receive(socket: Socket): void {
  let rest: Buffer = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    const bytes = Buffer.from(chunk);
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
    for (let used = take(rest, socket); used > 0; used = take(rest, socket)) {
      rest = rest.subarray(used);
    }
  });
}

/** Responds to the first request when it is complete, and returns its size in bytes. */
function take(bytes: Buffer, socket: Socket): number {
  const end = bytes.indexOf(END_OF_HEAD);
  if (end < 0) return 0;
  const head = bytes.toString('latin1', 0, end);
  const length = Number(headerOf(head, names.length) ?? 0);
  const whole = end + END_OF_HEAD.length + length;
  if (bytes.length < whole) return 0;
  answer(socket);
  count(head, bytes.subarray(whole - length, whole));
  return whole;
}

function answer(socket: Socket): void {
  if (!answerMs) {
    socket.write(ANSWER);
    return;
  }
  const [shortest, longest] = answerMs;
  answered += 1;
  const pause = shortest + ((answered * STEP_MS) % (longest - shortest + 1));
  setTimeout(() => {
    if (!socket.destroyed) socket.write(ANSWER);
  }, pause);
}

function count(head: string, body: Buffer): void {
  counts.received += 1;
  const id = headerOf(head, names.id) ?? '';
  if (seen.has(id)) counts.repeated += 1;
  else seen.add(id);
  if (keptBy !== 'nothing') keepTime(keyOf(head, id, body));
  if (counts.received % VERIFY_EACH === 0) verify(head, id, body);
}

function keyOf(head: string, id: string, body: Buffer): string | undefined {
  if (keptBy === 'delivery') return id;
  if (keptBy === 'event') return headerOf(head, 'X-Service-Event-Id');
  return /"id":(\d+)/.exec(body.toString('utf8'))?.[1];
}

function keepTime(key: string | undefined): void {
  if (key && !times.has(key)) times.set(key, monotonicMs());
}

function verify(head: string, id: string, body: Buffer): void {
  const path = head.slice(head.indexOf(' ') + 1, head.indexOf(' HTTP/'));
  if (!signed.has(path)) return;
  const headers = {
    'webhook-id': id,
    'webhook-timestamp': headerOf(head, 'webhook-timestamp'),
    'webhook-signature': headerOf(head, 'webhook-signature'),
  };
  const fault = verifier.faultOf(path, { headers, body: body.toString('utf8') });
  if (fault === '') counts.verified += 1;
  else counts.invalid += 1;
}

/** Reads a header by the exact name that the sender uses. Ignoring case would cost more. */
function headerOf(head: string, name: string): string | undefined {
  const at = head.indexOf(`\r\n${name}: `);
  if (at < 0) return undefined;
  const end = head.indexOf('\r\n', at + 2);
  return head.slice(at + name.length + 4, end < 0 ? undefined : end);
}

const methods = {
  listen: (o: Receivers): Promise<number> => listen(o),
  /** Sets secrets by path. Requests to other paths are counted but not verified. */
  learn(known: ReadonlyMap<string, string>) {
    for (const [path, secret] of known) {
      signed.add(path);
      verifier.learn(path, secret);
    }
  },
  /** Starts or stops recording the times of arrivals. */
  keepTimes(by: KeptBy) {
    keptBy = by;
    times.clear();
  },
  arrivals: (_: undefined): Arrivals => ({ ...counts, times }),
};
export type SinkMethods = typeof methods;

let reported = 0;
setInterval(() => {
  if (counts.received !== reported) reportReceived(counts.received);
  reported = counts.received;
}, REPORT_MS);
serveParent(methods);
