import { connect, createServer, Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket, type TlsOptions } from 'node:tls';
import { afterEach, describe, expect, test } from '@jest/globals';
import { type Certificate, createAuthority } from '../../../test/kit/certificates.ts';
import { listen, OK, onRequest, peerOf, sendingFixtures } from './testing/sending.ts';

const authority = createAuthority('test authority');
const { sender, peer } = sendingFixtures();
const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** A receiver with TLS and a certificate. */
async function secureReceiver({ cert, key }: Certificate, o: TlsOptions = {}) {
  let requests = 0;
  const server = createTlsServer({ cert, key, ...o }, (socket: TLSSocket) => {
    socket.on('error', () => {});
    onRequest(socket, () => {
      requests += 1;
      socket.write(OK);
    });
  });
  server.on('tlsClientError', () => {});
  closers.push(await listen(server));
  return { ...peerOf(server, 'https'), requests: () => requests };
}

const hour = (hours: number) => new Date(Date.now() + hours * 3_600_000);

describe('a certificate', () => {
  test('that is valid is accepted, and the handshake is done once', async () => {
    const receiver = await secureReceiver(authority.issue({ address: '127.0.0.1' }));
    const send = sender({ ca: authority.cert });
    expect(await send(receiver.url)).toMatchObject({
      kind: 'delivered',
      timing: { connectMs: expect.any(Number), tlsMs: expect.any(Number) },
    });
    expect(await send(receiver.url)).toMatchObject({
      kind: 'delivered',
      timing: { connectMs: null, tlsMs: null },
    });
    expect(receiver.connections()).toBe(1);
  });

  test.each([
    ['for another address', { address: '127.0.0.2' }, 'certificate is for another host'],
    ['for a name only', { name: 'hooks.example.com' }, 'certificate is for another host'],
    [
      'that has expired',
      { address: '127.0.0.1', from: hour(-48), to: hour(-1) },
      'certificate has expired',
    ],
    [
      'of tomorrow',
      { address: '127.0.0.1', from: hour(24), to: hour(48) },
      'certificate is not valid yet',
    ],
  ])('%s is refused', async (_what, o, error) => {
    const receiver = await secureReceiver(authority.issue(o));
    const result = await sender({ ca: authority.cert })(receiver.url);
    expect(result).toMatchObject({ kind: 'failed', status: 0, error });
    expect(result.timing).toMatchObject({ connectMs: expect.any(Number), tlsMs: null });
    expect(receiver.requests()).toBe(0);
  });

  test('must be for the requested name, not for the address', async () => {
    const name = 'hooks.example.com';
    const policy = { allowedOrigins: [], stackPorts: () => [] };
    for (const [issued, kind] of [
      [{ name }, 'delivered'],
      [{ name: 'other.example.com' }, 'failed'],
      [{ address: '127.0.0.1' }, 'failed'],
    ] as const) {
      const receiver = await secureReceiver(authority.issue(issued));
      const send = sender({
        policy,
        ca: authority.cert,
        resolve: async () => ['93.184.215.14'],
        dial: () => connect(receiver.port, '127.0.0.1'),
      });
      const result = await send(`https://${name}./hook`);
      expect(result).toMatchObject({ kind, timing: { dnsMs: expect.any(Number) } });
      expect(receiver.requests()).toBe(kind === 'delivered' ? 1 : 0);
    }
  });

  test('of an unknown authority is rejected, whatever the environment says', async () => {
    const receiver = await secureReceiver(authority.issue({ address: '127.0.0.1' }));
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    try {
      for (const ca of [undefined, createAuthority('another').cert]) {
        const send = sender(ca === undefined ? {} : { ca });
        expect(await send(receiver.url)).toMatchObject({
          kind: 'failed',
          error: 'certificate is not trusted',
        });
      }
    } finally {
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    }
    expect(receiver.requests()).toBe(0);
  });
});

describe('a handshake', () => {
  test.each<[string, TlsOptions, string]>([
    [
      'of an old version of TLS',
      { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT:@SECLEVEL=0' },
      'TLS handshake failed: the receiver must support TLS 1.2 or 1.3',
    ],
    [
      'of HTTP/2 alone',
      { ALPNProtocols: ['h2'] },
      'answer is not HTTP/1.1: the receiver offers only other protocols',
    ],
    [
      'without a common cipher',
      { ciphers: 'PSK', maxVersion: 'TLSv1.2' },
      'TLS handshake failed (ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE)',
    ],
  ])('%s says what the receiver does not support', async (_what, o, error) => {
    const receiver = await secureReceiver(authority.issue({ address: '127.0.0.1' }), o);
    const result = await sender({ ca: authority.cert })(receiver.url);
    expect(result).toMatchObject({ kind: 'failed', status: 0, error });
  });

  test('that hangs ends with the attempt', async () => {
    const silent = await peer(() => {}, 'https');
    const send = sender({ attemptMs: 300 });
    expect(await send(silent.url)).toMatchObject({ kind: 'timeout', status: 0 });
  });

  test('with a peer without TLS is a failure', async () => {
    const plain = await peer((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\n'), 'https');
    expect(await sender()(plain.url)).toMatchObject({ kind: 'failed', status: 0 });
  });

  test('that is cut off is a failure', async () => {
    const cut = await peer(
      (socket) => socket.once('data', () => socket.resetAndDestroy()),
      'https',
    );
    expect(await sender()(cut.url)).toMatchObject({ kind: 'failed', status: 0 });
  });
});

test('a connection that is never established ends with the attempt', async () => {
  const server = createServer();
  closers.push(await listen(server));
  const never = new Socket();
  const send = sender({ attemptMs: 300, dial: (): Socket => never });
  expect(await send(peerOf(server).url)).toMatchObject({
    kind: 'timeout',
    timing: { connectMs: null },
  });
  expect(never.destroyed).toBe(true);
});
