import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { nowMs } from '../wait.ts';
import { aboutOf } from './about.ts';
import { answerNastily } from './answers.ts';
import type { Arrival, Behaviour, Ending, FromSink, ToSink } from './protocol.ts';
import { createVerifier } from './verify.ts';

// The receiver, in a separate process: it is forked, gets commands, and reports arrivals.

const REPORT_MS = 20;
const BOMB_BYTES = 10 * 1024 * 1024;

const verifier = createVerifier();
const behaviours = new Map<string, Behaviour>();
const hanging = new Map<string, Set<ServerResponse>>();
const bomb = gzipSync(Buffer.alloc(BOMB_BYTES));
let arrivals: Arrival[] = [];
let endings: Ending[] = [];
let count = 0;

function send(message: FromSink): void {
  process.send?.(message);
}

function report(): void {
  if (arrivals.length + endings.length === 0) return;
  send({ kind: 'seen', arrivals, endings });
  arrivals = [];
  endings = [];
}

const server = createServer((req, res) => {
  receive(req, res).catch(() => res.destroy());
});

async function receive(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const text = body.toString('utf8');
  const path = req.url ?? '/';
  const behaviour = behaviours.get(path) ?? { kind: 'accept' };
  const header = (name: string): string => String(req.headers[name] ?? '');
  count += 1;
  const number = count;
  const signed = {
    'webhook-id': header('webhook-id'),
    'webhook-timestamp': header('webhook-timestamp'),
    'webhook-signature': header('webhook-signature'),
  };
  arrivals.push({
    number,
    path,
    webhookId: signed['webhook-id'],
    eventId: header('x-service-event-id'),
    trigger: header('x-service-event'),
    sequence: Number(header('x-service-sequence')),
    at: nowMs(),
    fromPort: req.socket.remotePort ?? 0,
    fault: verifier.faultOf(path, signed, text),
    accepted: behaviour.kind === 'accept' || behaviour.kind === 'hang',
    sha256: createHash('sha256').update(body).digest('hex'),
    about: aboutOf(text),
  });
  res.once('close', () => {
    endings.push({ number, at: nowMs(), answered: res.writableFinished });
  });
  answer(path, behaviour, res);
}

function answer(path: string, behaviour: Behaviour, res: ServerResponse): void {
  switch (behaviour.kind) {
    case 'accept':
      if (behaviour.delayMs) setTimeout(() => res.writeHead(204).end(), behaviour.delayMs);
      else res.writeHead(204).end();
      return;
    case 'status': {
      const { status, retryAfter } = behaviour;
      res.writeHead(status, retryAfter === undefined ? {} : { 'retry-after': retryAfter }).end();
      return;
    }
    case 'hang': {
      const waiting = hanging.get(path) ?? new Set();
      hanging.set(path, waiting.add(res));
      res.once('close', () => waiting.delete(res));
      return;
    }
    default:
      if (res.socket) answerNastily(behaviour.kind, { res, socket: res.socket, bomb });
  }
}

function behave(paths: readonly string[], behaviour: Behaviour): void {
  for (const path of paths) {
    behaviours.set(path, behaviour);
    if (behaviour.kind === 'hang') continue;
    for (const res of hanging.get(path) ?? []) res.writeHead(204).end();
    hanging.delete(path);
  }
}

async function listen(on: boolean, port: number): Promise<void> {
  if (on) {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return;
  }
  server.close();
  server.closeAllConnections();
}

server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const { port } = server.address() as AddressInfo;
setInterval(report, REPORT_MS);

process.on('message', (message: ToSink) => {
  switch (message.kind) {
    case 'secret':
      return verifier.learn(message.path, message.secret);
    case 'behave':
      return behave(message.paths, message.behaviour);
    case 'ignore-time':
      return verifier.ignoreTime(message.ignore);
    case 'listen':
      return void listen(message.listen, port);
    case 'flush':
      report();
      return send({ kind: 'flushed', call: message.call });
    default:
      return message satisfies never;
  }
});
// Whoever forked it is gone.
process.once('disconnect', () => process.exit());
send({ kind: 'ready', port });
