import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { listenOnLoopback } from '../../../deploy/local/loopback.ts';

/** A request as it arrived. */
export interface Received {
  readonly path: string;
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The unchanged body. */
  readonly bytes: Buffer;
}

type Answer = (response: ServerResponse, received: Received, nth: number) => void | Promise<void>;

export interface Receiver {
  readonly url: string;
  readonly port: number;
  readonly server: Server;
  readonly received: Received[];
  /** Maximum number of concurrent requests. */
  readonly mostOpen: () => number;
  /** Sets how it responds from now on. By default with 200. */
  answer: Answer;
  stop(): Promise<void>;
}

/**
 * A partner's endpoint on loopback. {@link verified} verifies what it received.
 *
 * @param o.forgets whether `received` stays empty, for very many requests.
 */
export async function startReceiver(o: { readonly forgets?: boolean } = {}): Promise<Receiver> {
  let open = 0;
  let mostOpen = 0;
  let count = 0;
  const server = createServer(async (request, response) => {
    open += 1;
    mostOpen = Math.max(mostOpen, open);
    response.once('close', () => {
      open -= 1;
    });
    const bytes = await bytesOf(request);
    if (!bytes) return;
    const received = {
      path: request.url ?? '',
      method: request.method ?? '',
      headers: request.headers,
      body: bytes.toString('utf8'),
      bytes,
    };
    if (!o.forgets) receiver.received.push(received);
    count += 1;
    await receiver.answer(response, received, count);
  });
  // A connection that a failed test left open must not keep the run alive.
  server.unref();
  const { port, stop } = await listenOnLoopback(server, 0);
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}/hook`,
    port,
    server,
    received: [],
    mostOpen: () => mostOpen,
    answer: (response) => {
      response.writeHead(200).end('ok');
    },
    stop,
  };
  return receiver;
}

/** Undefined when the sender closed the connection early. */
async function bytesOf(request: IncomingMessage): Promise<Buffer | undefined> {
  try {
    return Buffer.concat(await request.toArray());
  } catch {
    return undefined;
  }
}
