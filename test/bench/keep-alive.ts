import { createConnection, type Socket } from 'node:net';
import type { Load, LoadRequest } from './load.ts';

/** The part of an answer that a load needs. */
export interface Answer {
  /** 0 where the connection failed. */
  readonly status: number;
  /** Of `Retry-After`; 0 without. Seconds. */
  readonly retryAfterS: number;
}

export interface Client {
  /** Sends a request on a free connection, or once one is free. Never rejects. */
  send(request: LoadRequest): Promise<Answer>;
  close(): void;
}

/** In flight on one connection. */
interface Pending {
  readonly bytes: string;
  readonly resolve: (answer: Answer) => void;
}

const FAILED: Answer = { status: 0, retryAfterS: 0 };

/**
 * A client that costs little besides two system calls per request. In an overload test a more expensive one would take
 * CPU from the servers on the same machine. It supports only what our gateway sends (`Content-Length`, no interim
 * answers).
 *
 * @param connections most connections at once, opened when they are needed.
 */
export function keepAliveClient(
  load: Pick<Load, 'origin' | 'headers'>,
  connections: number,
): Client {
  const { hostname, port, host } = new URL(load.origin);
  const head = Object.entries({ host, ...load.headers }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  const free: Socket[] = [];
  const waiting: Pending[] = [];
  const sockets = new Map<Socket, Pending | undefined>();

  const bytesOf = ({ method, path, body }: LoadRequest): string => {
    const length = body === undefined ? [] : [`content-length: ${Buffer.byteLength(body)}`];
    return [`${method} ${path} HTTP/1.1`, ...head, ...length, '', body ?? ''].join('\r\n');
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
      const answer = answerIn(text);
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

/** The answer, once all of it is there. */
function answerIn(text: string): Answer | undefined {
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
