import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A server that listens on loopback. */
export interface Listening {
  readonly port: number;
  /** Also closes the open connections. */
  stop(): Promise<void>;
}

/** Lets a server listen on loopback; port 0 takes a free one. */
export async function listenOnLoopback(server: Server, port: number): Promise<Listening> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async stop() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
