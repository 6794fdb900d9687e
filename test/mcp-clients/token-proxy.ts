import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream';

export interface TokenProxy {
  /** The address of the target without a token: the same path on loopback. */
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * A proxy in front of an MCP server for clients that cannot send a token. It forwards requests unchanged and adds the
 * token. It replaces its own address by the target's in `Host` and `Origin`, and keeps any other.
 */
export async function startTokenProxy(target: URL, token: string): Promise<TokenProxy> {
  const server = createServer((req, res) => {
    const { port } = server.address() as AddressInfo;
    const onward = request(target, {
      method: req.method,
      path: req.url,
      headers: [...headersFor(req, target, port), 'Authorization', `Bearer ${token}`],
    });
    onward.on('response', (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      // When one side disconnects early, the other side is closed too.
      pipeline(answer, res, () => {});
    });
    onward.on('error', () => res.destroy());
    res.on('close', () => onward.destroy());
    pipeline(req, onward, () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${target.pathname}`,
    async stop() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** The headers as received, names and repetitions included, in a flat list. */
function headersFor(req: IncomingMessage, target: URL, ownPort: number): string[] {
  const own = new RegExp(`^(http://)?(127\\.0\\.0\\.1|localhost):${ownPort}$`);
  return req.rawHeaders.map((text, at) => {
    const name = at % 2 === 1 ? req.rawHeaders[at - 1]?.toLowerCase() : undefined;
    if (name !== 'host' && name !== 'origin') return text;
    return text.replace(own, (_whole, scheme = '') => `${scheme}${target.host}`);
  });
}
