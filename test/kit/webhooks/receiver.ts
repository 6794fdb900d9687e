import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { listenOnLoopback } from '../../../deploy/local/loopback.ts';

/** A request as it arrived. */
export interface Received {
  readonly path: string;
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

type Answer = (response: ServerResponse, received: Received, nth: number) => void | Promise<void>;

export interface Receiver {
  readonly url: string;
  readonly received: Received[];
  /** Most requests that were open at once. */
  readonly mostOpen: () => number;
  /** How it answers from now on; 200 at first. */
  answer: Answer;
  stop(): Promise<void>;
}

/** A partner's endpoint on loopback. */
export async function startReceiver(): Promise<Receiver> {
  let open = 0;
  let mostOpen = 0;
  const server = createServer(async (request, response) => {
    open += 1;
    mostOpen = Math.max(mostOpen, open);
    response.once('close', () => {
      open -= 1;
    });
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const received = {
      path: request.url ?? '',
      method: request.method ?? '',
      headers: request.headers,
      body: Buffer.concat(chunks).toString('utf8'),
    };
    receiver.received.push(received);
    await receiver.answer(response, received, receiver.received.length);
  });
  // One that a failed test left behind must not keep the run alive.
  server.unref();
  const { port, stop } = await listenOnLoopback(server, 0);
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}/hook`,
    received: [],
    mostOpen: () => mostOpen,
    answer: (response) => {
      response.writeHead(200).end('ok');
    },
    stop,
  };
  return receiver;
}
