import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface CutDatabase {
  /** The same database, through connections that can be cut. */
  readonly url: string;
  /** Closes all connections, and each new connection, until `mend` is called. */
  cut(): void;
  mend(): void;
  close(): Promise<void>;
}

/** A proxy for a database whose connections a test can cut, as a network failure or a failover does. */
export async function cutDatabase(databaseUrl: string): Promise<CutDatabase> {
  const target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  let isCut = false;
  const server = createServer((client) => {
    if (isCut) return client.resetAndDestroy();
    const upstream = connect(Number(target.port), target.hostname);
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
  const url = new URL(databaseUrl);
  url.port = String(address.port);
  const end = () => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  return {
    url: url.href,
    cut() {
      isCut = true;
      end();
    },
    mend() {
      isCut = false;
    },
    async close() {
      const closed = once(server, 'close');
      server.close();
      end();
      await closed;
    },
  };
}
