import { createServer } from 'node:http';
import { type Listening, listenOnLoopback } from '../loopback.ts';

/** A receiver that accepts every webhook, for the demo's own subscription. */
export function startSink(port: number): Promise<Listening> {
  const server = createServer((req, res) => {
    req.resume();
    req.once('end', () => res.writeHead(204).end());
  });
  return listenOnLoopback(server, port);
}
