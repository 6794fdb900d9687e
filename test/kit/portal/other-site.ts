import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A web server of an attacker, with empty pages. */
export interface OtherSite {
  /** By another port of the portal's host: the same site for cookies, another origin. */
  readonly sameSite: string;
  /** By another host: another site. */
  readonly crossSite: string;
  stop(): Promise<void>;
}

/** Starts it on loopback, under both names of loopback. */
export async function startOtherSite(): Promise<OtherSite> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>Other site</title>');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    sameSite: `http://127.0.0.1:${port}/`,
    crossSite: `http://localhost:${port}/`,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
