import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Nasty } from './protocol.ts';

const DRIP_MS = 500;
const CHUNK = Buffer.alloc(64 * 1024, 'x');

/** A gzip member of ten megabytes of zeros, sent repeatedly. */
export type Bomb = Buffer;

/** Sends an invalid or harmful response. Ends when the sender closes the connection. */
export function respondBadly(
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
      // Written as bytes, because the HTTP server does not send such a header.
      socket.write(`HTTP/1.1 500 Oh\r\nx-huge: ${'h'.repeat(1_000_000)}\r\n\r\n`);
      return;
    case 'reset':
      socket.resetAndDestroy();
      return;
    default:
      kind satisfies never;
  }
}

/** Sends one byte at intervals. The response never ends. */
function drip(res: ServerResponse): void {
  res.writeHead(500, { 'content-type': 'text/plain' });
  const timer = setInterval(() => res.write('.'), DRIP_MS);
  res.once('close', () => clearInterval(timer));
}

/** Sends as much as the sender reads. */
function pour(res: ServerResponse, chunk: Buffer): void {
  const more = (): void => {
    while (!res.destroyed && res.write(chunk));
  };
  res.on('drain', more);
  more();
}
