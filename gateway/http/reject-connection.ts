import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { EndReason } from './connections.ts';

/**
 * Sends a JSON error to a client whose request is not valid HTTP or is not served here. Then closes the connection.
 *
 * The socket continues to receive for `lingerMs`. If it closed while bytes of the client are unread, TCP would reset
 * the connection and the client would lose the response.
 */
export function rejectConnection(
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

/** The response to a CONNECT request. */
export const TUNNEL: ClientError = {
  status: '400 Bad Request',
  message: 'This server is not a proxy and opens no tunnels.',
  reason: 'not a request',
};

/** The response for an error of Node's HTTP parser, by error code. */
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
