import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A receiver that accepts every webhook, for the demo's own subscription. */
export async function startSink(port: number): Promise<{ port: number; stop(): Promise<void> }> {
  const server = createServer((req, res) => {
    req.resume();
    req.once('end', () => res.writeHead(204).end());
  });
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
