import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { serveParent } from './ipc.ts';

/** The attackers' addresses. Clients have others. */
const ADDRESSES = Array.from({ length: 8 }, (_, nth) => `127.0.0.${nth + 2}`);
const LIST = '/api/2026-10/webhooks';
const ASSESS = '/api/2026-10/dispositioning/assess';
/** As many as shut a gateway without an edge out. */
const SOCKETS = 4_100;
const FLOODS = 32;
const BODY_BYTES = 32 * 1024 * 1024;

interface Target {
  readonly port: number;
  /** Keys of the attackers' own shops, for attacks that need one. */
  readonly keys: readonly string[];
}

/** Keeps this many connections open, each with these bytes sent and nothing read. */
function hold({ port }: Target, count: number, bytes: string): void {
  const begin = (nth: number): void => {
    const localAddress = ADDRESSES[nth % ADDRESSES.length] ?? '';
    const socket = connect({ host: '127.0.0.1', port, localAddress });
    socket.once('close', () => setTimeout(begin, 250, nth));
    socket.on('error', () => {}).pause();
    socket.write(bytes);
  };
  for (let nth = 0; nth < count; nth += 1) begin(nth);
}

/** Sends one request after the other, as fast as they are answered. */
function flood(
  { port, keys }: Target,
  o: { readonly headers?: object; readonly body?: Buffer; readonly count?: number } = {},
): void {
  for (let nth = 0; nth < (o.count ?? FLOODS); nth += 1) {
    const localAddress = ADDRESSES[nth % ADDRESSES.length] ?? '';
    const agent = new Agent({ keepAlive: true, maxSockets: 1, localAddress });
    const [path, method] = o.body ? [ASSESS, 'POST'] : [LIST, 'GET'];
    const own = o.body && { 'x-authorization': keys[nth % keys.length] };
    const send = (): void => {
      const headers = { ...o.headers, ...own };
      const req = request({ host: '127.0.0.1', port, path, method, agent, headers }, (res) => {
        res.resume().once('close', send);
      });
      req.once('error', () => setTimeout(send, 50)).end(o.body);
    };
    send();
  }
}

const HALF_HEAD = `GET ${LIST} HTTP/1.1\r\nHost: x\r\nX-Slow: `;
const HALF_BODY = `POST ${ASSESS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{`;
const PIPELINE = `GET ${LIST} HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(1_000);

const ATTACKS = {
  'half heads and a flood without a credential': (to: Target) => {
    hold(to, SOCKETS, HALF_HEAD);
    flood(to);
  },
  'half bodies': (to: Target) => hold(to, SOCKETS, HALF_BODY),
  'wrong keys': (to: Target) => flood(to, { headers: { 'x-authorization': 'wrong' } }),
  'pipelines that nobody reads': (to: Target) => hold(to, 400, PIPELINE),
  'inflating bodies': (to: Target) => {
    const item = '{"items":[{"line_item_id":21,"disposition_note":"x"}]}';
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
    flood(to, { headers, body: gzipSync(item.padEnd(BODY_BYTES, ' ')) });
  },
};
export type AttackName = keyof typeof ATTACKS;
export const ATTACK_NAMES = Object.keys(ATTACKS) as AttackName[];

const methods = {
  async begin(o: Target & { readonly name: AttackName }): Promise<void> {
    ATTACKS[o.name](o);
  },
};
export type AttackMethods = typeof methods;

if (process.send) serveParent(methods);
