import { hash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { startReceiver } from '../../kit/webhooks/receiver.ts';
import { createVerifier } from '../../kit/webhooks/signatures.ts';
import { nowMs } from '../wait.ts';
import { aboutOf } from './about.ts';
import { respondBadly } from './answers.ts';
import type { Arrival, Behaviour, Ending, FromSink, ToSink } from './protocol.ts';

// The receiver, in a separate process. Its parent sends commands, and it reports arrivals.

const REPORT_MS = 20;
const BOMB_BYTES = 10 * 1024 * 1024;

const verifier = createVerifier();
const behaviours = new Map<string, Behaviour>();
const hanging = new Map<string, Set<ServerResponse>>();
const bomb = gzipSync(Buffer.alloc(BOMB_BYTES));
let arrivals: Arrival[] = [];
let endings: Ending[] = [];

function send(message: FromSink): void {
  process.send?.(message);
}

function report(): void {
  if (arrivals.length + endings.length === 0) return;
  send({ kind: 'seen', arrivals, endings });
  arrivals = [];
  endings = [];
}

const receiver = await startReceiver({ forgets: true });
const { server, port } = receiver;
server.keepAliveTimeout = 60_000;
receiver.answer = (res, received, number) => {
  const { path, headers } = received;
  const behaviour = behaviours.get(path) ?? { kind: 'accept' };
  const header = (name: string): string => String(headers[name] ?? '');
  arrivals.push({
    number,
    path,
    webhookId: header('webhook-id'),
    eventId: header('x-service-event-id'),
    trigger: header('x-service-event'),
    sequence: Number(header('x-service-sequence')),
    at: nowMs(),
    fromPort: res.req.socket.remotePort ?? 0,
    fault: verifier.faultOf(path, received),
    accepted: behaviour.kind === 'accept' || behaviour.kind === 'hang',
    sha256: hash('sha256', received.bytes),
    about: aboutOf(received.body),
  });
  res.once('close', () => {
    endings.push({ number, at: nowMs(), answered: res.writableFinished });
  });
  answer(path, behaviour, res);
};

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
      if (res.socket) respondBadly(behaviour.kind, { res, socket: res.socket, bomb });
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

function listen(on: boolean): void {
  if (on) {
    server.listen(port, '127.0.0.1');
    return;
  }
  server.close();
  server.closeAllConnections();
}

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
      return listen(message.listen);
    case 'flush':
      report();
      return send({ kind: 'flushed', call: message.call });
    default:
      return message satisfies never;
  }
});
// The parent process has exited.
process.once('disconnect', () => process.exit());
send({ kind: 'ready', port });
