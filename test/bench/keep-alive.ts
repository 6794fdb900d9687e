import { createConnection, type Socket } from 'node:net';
import type { Load, LoadRequest } from './load.ts';

/** The part of a response that a load generator needs. */
export interface ClientResponse {
  /** 0 when the connection failed. */
  readonly status: number;
  /** `Retry-After` in seconds. 0 without the header. */
  readonly retryAfterS: number;
}

export interface Client {
  /** Sends a request on a free connection, and waits for one if necessary. Never rejects. */
  send(request: LoadRequest): Promise<ClientResponse>;
  close(): void;
}

/** A request in flight on a connection. */
interface Pending {
  readonly bytes: string;
  readonly resolve: (answer: ClientResponse) => void;
}

const FAILED: ClientResponse = { status: 0, retryAfterS: 0 };

/**
 * A client that costs little besides two system calls per request. A more expensive client would take CPU from the
 * servers of an overload test, which run on the same machine. It supports only responses as the gateway sends them: with
 * `Content-Length`, without interim responses.
 *
 * @param connections maximum number of connections. Each is opened when it is needed.
 */
export function keepAliveClient(
  load: Pick<Load, 'origin' | 'headers'>,
  connections: number,
): Client {
  const { hostname, port, host } = new URL(load.origin);
  const linesOf = (headers: Load['headers']): string[] =>
    Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const head = linesOf({ host, ...load.headers });
  const free: Socket[] = [];
  const waiting: Pending[] = [];
  const sockets = new Map<Socket, Pending | undefined>();

  const bytesOf = ({ method, path, body, headers = {} }: LoadRequest): string => {
    const length = body === undefined ? [] : [`content-length: ${Buffer.byteLength(body)}`];
    const lines = [...head, ...linesOf(headers), ...length];
    return [`${method} ${path} HTTP/1.1`, ...lines, '', body ?? ''].join('\r\n');
  };
  const start = (socket: Socket, pending: Pending): void => {
    sockets.set(socket, pending);
    socket.write(pending.bytes);
  };
  const connect = (): Socket => {
    const socket = createConnection({ host: hostname, port: Number(port), noDelay: true });
    let text = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
      const answer = parseResponse(text);
      if (!answer) return;
      text = '';
      const done = sockets.get(socket);
      const next = waiting.shift();
      if (next) start(socket, next);
      else {
        sockets.set(socket, undefined);
        free.push(socket);
      }
      done?.resolve(answer);
    });
    socket
      .on('error', () => {})
      .on('close', () => {
        const lost = sockets.get(socket);
        sockets.delete(socket);
        if (free.includes(socket)) free.splice(free.indexOf(socket), 1);
        lost?.resolve(FAILED);
        const next = waiting.shift();
        if (next) start(connect(), next);
      });
    return socket;
  };

  return {
    send: (request) =>
      new Promise((resolve) => {
        const pending = { bytes: bytesOf(request), resolve };
        const socket = free.pop() ?? (sockets.size < connections ? connect() : undefined);
        if (socket) start(socket, pending);
        else waiting.push(pending);
      }),
    close() {
      for (const socket of sockets.keys()) socket.destroy();
    },
  };
}

/** Parses a response. Undefined while it is incomplete. */
function parseResponse(text: string): ClientResponse | undefined {
  const end = text.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const length = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1] ?? 0);
  if (text.length < end + 4 + length) return undefined;
  const status = Number(text.slice(9, 12));
  return {
    status,
    retryAfterS: status === 503 ? Number(/\r\nretry-after: (\d+)/i.exec(text)?.[1]) : 0,
  };
}
