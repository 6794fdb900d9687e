import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { afterEach } from '@jest/globals';
import type { UrlPolicy } from '../../../platform/outbound/guard.ts';
import { deadline } from '../../../platform/process/deadlines.ts';
import { createSender, type SenderOptions } from '../send.ts';
import type { SendResult } from '../send-result.ts';

/**
 * Time limit of an attempt. It is long, so that a slow machine does not look like a late response. Tests of late
 * responses set their own limit. Milliseconds.
 */
const ATTEMPT_MS = deadline(15_000);

/** Addresses that tests may reach: loopback, with either scheme. */
export const LOOPBACK: UrlPolicy = {
  allowedOrigins: ['http://127.0.0.1:*', 'https://127.0.0.1:*'],
  stackPorts: () => [],
};

/** A receiver whose test writes the bytes of its responses. */
export interface Peer {
  readonly port: number;
  readonly url: string;
  /** Number of connections that the receiver has accepted. */
  readonly connections: () => number;
}

export type PostTo = (url: string, body?: Uint8Array) => Promise<SendResult>;

/** Senders and peers of one test, closed when it ends. */
export function sendingFixtures() {
  const closers: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close();
  });
  return {
    sender(o: Partial<SenderOptions> = {}): PostTo {
      const sender = createSender({ policy: LOOPBACK, attemptMs: ATTEMPT_MS, ...o });
      closers.push(() => sender.close());
      return (url, body = Buffer.from('{"a":1}')) => sender.send({ url, headers: {}, body });
    },
    /** @param serve called with each connection; `nth` counts from 1. */
    async peer(serve: (socket: Socket, nth: number) => void, scheme = 'http'): Promise<Peer> {
      const server = createServer({ noDelay: true }, serveEach(serve));
      closers.push(await listen(server));
      return peerOf(server, scheme);
    },
  };
}

function serveEach(serve: (socket: Socket, nth: number) => void) {
  let nth = 0;
  return (socket: Socket): void => {
    nth += 1;
    socket.on('error', () => {});
    serve(socket, nth);
  };
}

/** Listens on loopback. Returns a function that closes it with its connections. */
export async function listen(server: Server): Promise<() => Promise<void>> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return async () => {
    const closed = once(server, 'close');
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
}

/** The address of a listening server, and its number of connections. */
export function peerOf(server: Server, scheme = 'http'): Peer {
  let connections = 0;
  server.on('connection', () => {
    connections += 1;
  });
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return { port, url: `${scheme}://127.0.0.1:${port}/hook`, connections: () => connections };
}

/** Maximum number of tries. A slow machine does not delay this many attempts. */
const MAX_TRIES = 10;

/**
 * Sends again until the headers of a response arrived, up to ten times, because on a slow machine none arrive within a
 * short limit. Returns the last result.
 */
export async function untilResponse(send: () => Promise<SendResult>): Promise<SendResult> {
  for (let nth = 1; ; nth += 1) {
    const result = await send();
    if (result.status > 0 || nth === MAX_TRIES) return result;
  }
}

/** Calls back for every complete request on a connection, with the bytes of its body. */
export function onRequest(socket: Socket, answer: (body: string, nth: number) => void): void {
  let text = '';
  let nth = 0;
  socket.on('data', (data) => {
    text += data.toString('latin1');
    for (;;) {
      const head = text.indexOf('\r\n\r\n');
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
      if (head < 0 || text.length < head + 4 + length) return;
      const body = text.slice(head + 4, head + 4 + length);
      text = text.slice(head + 4 + length);
      nth += 1;
      answer(body, nth);
    }
  });
}

export const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
