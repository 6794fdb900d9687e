import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { EndReason } from './connections.ts';

/**
 * Answers what is not HTTP, or no request for us, in the common shape, and ends the connection.
 *
 * The client's own end of it stays open for `lingerMs`: closing at once, with bytes of the client unread,
 * would reset the connection and lose the answer.
 */
export function refuseConnection(
  socket: Duplex,
  o: { readonly status: string; readonly message: string; readonly lingerMs: number },
): void {
  const body = JSON.stringify({ message: o.message, errors: {} });
  const timer = setTimeout(() => socket.destroy(), o.lingerMs);
  socket.on('error', () => socket.destroy()).once('close', () => clearTimeout(timer));
  socket.end(
    [
      `HTTP/1.1 ${o.status}`,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(body)}`,
      `X-Request-Id: ${randomUUID()}`,
      'Cache-Control: no-store',
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  );
  socket.resume();
}

export interface ClientError {
  readonly status: string;
  readonly message: string;
  readonly reason: EndReason;
}

/** A tunnel was asked for. */
export const TUNNEL: ClientError = {
  status: '400 Bad Request',
  message: 'This is no proxy: it opens no tunnels.',
  reason: 'not a request',
};

/** What the client did wrong, by the code of the parser's error. */
export function clientErrorOf(code: string | undefined): ClientError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return {
        status: '431 Request Header Fields Too Large',
        message: 'The headers are too large.',
        reason: 'not a request',
      };
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return {
        status: '408 Request Timeout',
        message: 'The request took too long to arrive.',
        reason: 'request too slow',
      };
    default:
      return {
        status: '400 Bad Request',
        message: 'The request is not HTTP.',
        reason: 'not a request',
      };
  }
}
