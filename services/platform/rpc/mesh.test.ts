import { once } from 'node:events';
import http2 from 'node:http2';
import net from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { identity, type RpcBench, startRpcBench } from '../../../test/kit/services/rpc-bench.ts';
import { hasMeshIdentity, type MeshHeader } from './mesh.ts';

const [OK, INVALID_ARGUMENT, UNAUTHENTICATED] = ['0', '3', '16'];
const HEALTH = '/grpc.health.v1.Health/Check';
const CART = '/rms.carts.v1.CartsService/GetCart';
const ENVOY =
  'By=spiffe://a/ns/rms/sa/carts;Hash=1f;Subject="CN=a,O=b";URI=spiffe://a/ns/rms/sa/gateway';
const LINKERD = 'gateway.rms.serviceaccount.identity.linkerd.cluster.local';

/** Calls with an empty message, as the proxy of a mesh would. Returns the code of the response. */
async function call(
  port: number,
  path: string,
  o: { headers?: Record<string, string>; host?: string; from?: string },
): Promise<unknown> {
  const { headers = {}, host = '127.0.0.1', from = '127.0.0.1' } = o;
  const session = http2.connect(`http://${host}:${port}`, {
    createConnection: () => net.connect({ host, port, localAddress: from }),
  });
  const stream = session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...headers,
  });
  let code: unknown;
  for (const event of ['response', 'trailers'])
    stream.on(event, (head) => {
      code = head['grpc-status'] ?? code;
    });
  stream.resume().end(Buffer.alloc(5));
  await once(stream, 'close');
  session.close();
  return code;
}

describe('behind a mesh', () => {
  let bench: RpcBench;
  beforeEach(async () => {
    bench = await startRpcBench();
  });
  afterEach(() => bench.close());
  const serve = (meshHeader?: MeshHeader) =>
    bench.serve({ getCart: () => ({}) }, { host: '0.0.0.0', ...(meshHeader && { meshHeader }) });
  const authorization = async () => `Bearer ${await identity.token()}`;

  test.each([
    ['x-forwarded-client-cert', ENVOY, { 'l5d-client-id': LINKERD }],
    ['l5d-client-id', LINKERD, { 'x-forwarded-client-cert': ENVOY }],
  ] as const)(
    'a peer without an identity in %s is refused, whatever else it sends',
    async (header, value, other) => {
      const { port } = await serve(header);
      const token = { authorization: await authorization() };
      const named = { [header]: value };
      expect(await call(port, HEALTH, {})).toBe(UNAUTHENTICATED);
      expect(await call(port, CART, { headers: token })).toBe(UNAUTHENTICATED);
      expect(await call(port, CART, { headers: { ...token, ...other } })).toBe(UNAUTHENTICATED);
      expect(bench.logged.filter((line) => line.includes('no identity of the mesh'))).toHaveLength(
        1,
      );
      expect(await call(port, HEALTH, { headers: named })).toBe(OK);
      // The identity of the mesh replaces no token. The message is empty, so it has no actor.
      expect(await call(port, CART, { headers: named })).toBe(UNAUTHENTICATED);
      expect(await call(port, CART, { headers: { ...named, ...token } })).toBe(INVALID_ARGUMENT);
    },
  );

  test('an identity is believed only on connections from the pod itself', async () => {
    const { port } = await serve('x-forwarded-client-cert');
    const headers = { 'x-forwarded-client-cert': ENVOY };
    const interfaces = Object.values(networkInterfaces()).flatMap((found) => found ?? []);
    const own = interfaces.find(({ family, internal }) => family === 'IPv4' && !internal)?.address;
    if (own === undefined) throw new Error('the machine has no other address than loopback');
    expect(await call(port, HEALTH, { headers, host: own, from: '127.0.0.6' })).toBe(OK);
    expect(await call(port, HEALTH, { headers, host: own, from: own })).toBe(OK);
    expect(await call(port, HEALTH, { headers, from: own })).toBe(UNAUTHENTICATED);
  });

  test('without a mesh the headers mean nothing', async () => {
    const { port } = await serve();
    expect(await call(port, HEALTH, {})).toBe(OK);
  });
});

test.each([
  ['of an earlier proxy only', `${ENVOY},By=spiffe://a/ns/rms/sa/carts;Hash=2f;Subject=""`],
  ['of no SPIFFE id', 'Hash=1f;URI=https://a/b'],
  ['inside another value', 'By=spiffe://a/ns/rms/sa/carts;Hash=1f'],
  ['empty', ''],
])('an identity %s is none', (_, value) => {
  const of = { remoteAddress: '::ffff:127.0.0.6', localAddress: '::ffff:10.0.0.1' };
  const header = 'x-forwarded-client-cert';
  expect(hasMeshIdentity(header, new Headers({ [header]: value }), of)).toBe(false);
  expect(hasMeshIdentity(header, new Headers({ [header]: `${value},${ENVOY}` }), of)).toBe(true);
});
