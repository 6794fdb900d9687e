import { connect, createServer } from 'node:net';

/**
 * `node deploy/demo/forward.ts <port> <host:port>` forwards connections of a loopback port to another address.
 *
 * With it the gateway reaches the identity provider at the address that browsers use through `kubectl port-forward`. Both
 * must use the same issuer URL.
 */
const [port = '', target = ''] = process.argv.slice(2);
const [host = '', targetPort = ''] = target.split(':');

createServer((incoming) => {
  const outgoing = connect(Number(targetPort), host);
  incoming.pipe(outgoing).pipe(incoming);
  for (const [one, other] of [
    [incoming, outgoing],
    [outgoing, incoming],
  ] as const) {
    one.on('error', () => other.destroy());
    one.on('close', () => other.destroy());
  }
}).listen(Number(port), '127.0.0.1');
