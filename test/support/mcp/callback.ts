import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Longest sign-in of a test on a busy machine. Milliseconds. */
const PATIENCE_MS = 90_000;

/** Where an app on the user's own machine waits for the browser to come back. */
export interface Callback {
  readonly redirectUri: string;
  /** What the browser brought next. Rejects when it does not come. */
  next(): Promise<URLSearchParams>;
  stop(): Promise<void>;
}

export async function startCallback(): Promise<Callback> {
  const arrived: URLSearchParams[] = [];
  const server = createServer((req, res) => {
    const url = new URL(req.url ?? '', 'http://127.0.0.1');
    res
      .setHeader('content-type', 'text/html')
      .end('<!doctype html><title>Back</title><h1>Back</h1>');
    if (url.pathname !== '/callback') return;
    arrived.push(url.searchParams);
    server.emit('arrival');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    redirectUri: `http://127.0.0.1:${port}/callback`,
    async next() {
      const signal = AbortSignal.timeout(PATIENCE_MS);
      while (arrived.length === 0) await once(server, 'arrival', { signal });
      const first = arrived.shift();
      if (!first) throw new Error('nobody came back');
      return first;
    },
    async stop() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
