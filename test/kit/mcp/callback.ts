import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Time limit for a sign-in on a busy machine. Milliseconds. */
const TIMEOUT_MS = 90_000;

/** The redirect URI of an app on the user's machine. */
export interface Callback {
  readonly redirectUri: string;
  /** The next redirect of the browser. Rejects when none arrives in time. */
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
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      while (arrived.length === 0) await once(server, 'arrival', { signal });
      const first = arrived.shift();
      if (!first) throw new Error('no redirect arrived');
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
