import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { createVerifier } from '../kit/webhooks/signatures.ts';
import { serveParent, tellParent } from './ipc.ts';
import { monotonicMs } from './stats.ts';

/** The signature of every nth delivery is verified, because verifying all would cost more than the deliveries. */
const VERIFY_EACH = 100;
/** How often the parent gets the number of arrivals. Milliseconds. */
const TELL_MS = 20;
const ANSWER = Buffer.from('HTTP/1.1 204 No Content\r\n\r\n');
const END_OF_HEAD = Buffer.from('\r\n\r\n');

export interface Arrivals {
  readonly received: number;
  /** Deliveries with a repeated `webhook-id`. */
  readonly repeated: number;
  readonly verified: number;
  readonly invalid: number;
  /** Connections ever opened. */
  readonly connections: number;
  /** Monotonic milliseconds of the first arrival, by key; only while they are recorded. */
  readonly times: ReadonlyMap<string, number>;
}

const seen = new Set<string>();
const verifier = createVerifier();
/** Paths whose secret is known. */
const signed = new Set<string>();
/** What the times of arrivals are kept by, if at all. */
type KeptBy = 'nothing' | 'delivery' | 'event' | 'return';
let keptBy: KeptBy = 'nothing';
const times = new Map<string, number>();
const counts = { received: 0, repeated: 0, verified: 0, invalid: 0, connections: 0 };

/** How receivers behave. */
export interface Receivers {
  /** The shortest and the longest time until they answer. Milliseconds. */
  readonly answerMs?: readonly [number, number];
  /** With it they are reached over TLS. */
  readonly certificate?: { readonly cert: string; readonly key: string };
  /** Header names are in Go's form (`Webhook-Id`), not in that of our sender. */
  readonly isCanonical?: boolean;
}

/** Any prime: answers take times all over the range, and the same ones in every run. */
const STEP_MS = 37;
let answerMs: Receivers['answerMs'];
let names = { id: 'webhook-id', length: 'content-length' };
let answered = 0;

/** A receiver as cheap as one can be in Node: it reads just enough of HTTP to find where a request ends. */
async function listen(o: Receivers): Promise<number> {
  answerMs = o.answerMs;
  if (o.isCanonical) names = { id: 'Webhook-Id', length: 'Content-Length' };
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

/** Answers the request at the front, if it is there as a whole. Says how many bytes it had. */
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

/** The name as our sender writes it: to compare in any case would cost more. */
function headerOf(head: string, name: string): string | undefined {
  const at = head.indexOf(`\r\n${name}: `);
  if (at < 0) return undefined;
  const end = head.indexOf('\r\n', at + 2);
  return head.slice(at + name.length + 4, end < 0 ? undefined : end);
}

const methods = {
  listen: (o: Receivers): Promise<number> => listen(o),
  /** Secrets by path. Requests to other paths are counted and not verified. */
  learn(known: ReadonlyMap<string, string>) {
    for (const [path, secret] of known) {
      signed.add(path);
      verifier.learn(path, secret);
    }
  },
  /** Begins to keep the times of arrivals, or stops. */
  keepTimes(by: KeptBy) {
    keptBy = by;
    times.clear();
  },
  arrivals: (_: undefined): Arrivals => ({ ...counts, times }),
};
export type SinkMethods = typeof methods;

let reported = 0;
setInterval(() => {
  if (counts.received !== reported) tellParent(counts.received);
  reported = counts.received;
}, TELL_MS);
serveParent(methods);
