import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Nasty } from './protocol.ts';

const DRIP_MS = 500;
const CHUNK = Buffer.alloc(64 * 1024, 'x');

/** A gzip member that unpacks to ten megabytes of zeros, over and over. */
export type Bomb = Buffer;

/** Sends one of the answers that no receiver should send. Ends when the sender closes the connection. */
export function answerNastily(
  kind: Nasty,
  o: { res: ServerResponse; socket: Socket; bomb: Bomb },
): void {
  const { res, socket, bomb } = o;
  switch (kind) {
    case 'drip':
      drip(res);
      return;
    case 'endless':
      res.writeHead(500, { 'content-type': 'text/plain' });
      pour(res, CHUNK);
      return;
    case 'gzip-bomb':
      res.writeHead(500, { 'content-type': 'text/plain', 'content-encoding': 'gzip' });
      pour(res, bomb);
      return;
    case 'huge-header':
      // Written by hand, because the HTTP server refuses to send it.
      socket.write(`HTTP/1.1 500 Oh\r\nx-huge: ${'h'.repeat(1_000_000)}\r\n\r\n`);
      return;
    case 'reset':
      socket.resetAndDestroy();
      return;
    default:
      kind satisfies never;
  }
}

/** One byte now and then: each arrives in time, the whole never does. */
function drip(res: ServerResponse): void {
  res.writeHead(500, { 'content-type': 'text/plain' });
  const timer = setInterval(() => res.write('.'), DRIP_MS);
  res.once('close', () => clearInterval(timer));
}

/** As much as the sender takes. */
function pour(res: ServerResponse, chunk: Buffer): void {
  const more = (): void => {
    while (!res.destroyed && res.write(chunk));
  };
  res.on('drain', more);
  more();
}
