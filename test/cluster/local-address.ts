import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** Passes connections to a loopback port on to another address, until `stop`. */
export async function localAddress(port: number, to: { host: string; port: number }) {
  const sockets = new Set<Socket>();
  const server = createServer((incoming) => {
    const outgoing = connect(to);
    incoming.pipe(outgoing).pipe(incoming);
    for (const [one, other] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      sockets.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
