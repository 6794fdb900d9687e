import { connect, createServer, Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { createServer as createTlsServer, type TLSSocket, type TlsOptions } from 'node:tls';
import { afterEach, describe, expect, test } from '@jest/globals';
import { type Certificate, createAuthority } from '../../../test/kit/certificates.ts';
import { testTelemetry } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import { type Dial, dialTcp } from '../../platform/outbound/open-socket.ts';
import { listen, OK, onRequest, peerOf, sendingFixtures } from './testing/sending.ts';

const { sender, peer } = sendingFixtures();

describe('a connection', () => {
  test('is reused: a thousand requests need as many connections as are in flight concurrently', async () => {
    const receiver = await peer((socket) => onRequest(socket, () => socket.write(OK)));
    const send = sender({ attemptMs: 15_000 });
    let left = 1_000;
    const queues = Array.from({ length: 8 }, async () => {
      while (left-- > 0) expect((await send(receiver.url)).kind).toBe('delivered');
    });
    await Promise.all(queues);
    expect(receiver.connections()).toBeLessThanOrEqual(8);
  });

  test('is reused by every url of its origin, burst after burst', async () => {
    const BURST = 400;
    const receiver = await peer((socket) => onRequest(socket, () => socket.write(OK)));
    const send = sender({ attemptMs: 15_000 });
    const urls = Array.from({ length: 100 }, (_, at) => `${receiver.url}/${at}`);
    for (let sent = 0; sent < 5_000; sent += BURST) {
      const burst = Array.from({ length: BURST }, (_, at) => send(urls[at % urls.length] ?? ''));
      const results = await Promise.all(burst);
      expect(results.every(({ kind }) => kind === 'delivered')).toBe(true);
    }
    expect(receiver.connections()).toBeLessThanOrEqual(BURST);
  });

  test('is not reused when the receiver says so', async () => {
    const receiver = await peer((socket) =>
      onRequest(socket, () =>
        socket.end('HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok'),
      ),
    );
    const send = sender();
    for (const _ of [1, 2, 3]) expect((await send(receiver.url)).kind).toBe('delivered');
    expect(receiver.connections()).toBe(3);
  });

  test('is not reused when the response arrived before the request was read', async () => {
    const receiver = await peer((socket) => {
      socket.once('data', () => {
        socket.write(OK);
        socket.pause();
      });
    });
    const send = sender();
    const large = Buffer.alloc(16 * 1024 * 1024, 'x');
    for (const _ of [1, 2]) expect((await send(receiver.url, large)).kind).toBe('delivered');
    expect(receiver.connections()).toBe(2);
  });

  test('is reused when the end of the write is noticed after the response, as with TLS', async () => {
    const receiver = await peer((socket) => onRequest(socket, () => socket.write(OK)));
    const dial: Dial = (addresses, port) => {
      let reads = 0;
      const writableLength = () => {
        reads += 1;
        return reads > 2 ? 0 : 4_605;
      };
      return Object.defineProperty(dialTcp(addresses, port), 'writableLength', {
        get: writableLength,
      });
    };
    const send = sender({ dial });
    expect((await send(receiver.url)).kind).toBe('delivered');
    for (let tick = 0; tick < 3; tick += 1) await setImmediate();
    expect((await send(receiver.url)).timing.connectMs).toBeNull();
    expect(receiver.connections()).toBe(1);
  });

  test('that is idle is closed, and only a limited number is kept', async () => {
    let open = 0;
    let isHeld = true;
    const held: (() => void)[] = [];
    const receiver = await peer((socket) => {
      open += 1;
      socket.once('close', () => {
        open -= 1;
      });
      onRequest(socket, () => {
        const answer = () => socket.write(OK.replace('\r\n', '\r\nkeep-alive: timeout=3\r\n'));
        if (isHeld) held.push(answer);
        else answer();
      });
    });
    const send = sender({ attemptMs: 15_000 });
    const sending = Array.from({ length: 600 }, () => send(receiver.url));
    await until(() => held.length === 600);
    isHeld = false;
    for (const answer of held) answer();
    const results = await Promise.all(sending);
    expect(results.every(({ kind }) => kind === 'delivered')).toBe(true);
    await until(() => open <= 512);
    await until(() => open === 0);
  });
});

describe('a kept connection that the receiver has closed', () => {
  test('costs no attempt: the request is sent again on a new one', async () => {
    const telemetry = await testTelemetry();
    const bodies: string[] = [];
    const receiver = await peer((socket, nth) =>
      onRequest(socket, (body, request) => {
        bodies.push(body);
        if (nth === 1 && request === 2) socket.resetAndDestroy();
        else socket.write(OK);
      }),
    );
    const send = sender({ meter: telemetry.meter });
    await send(receiver.url, Buffer.from('first'));
    expect(await send(receiver.url, Buffer.from('second'))).toMatchObject({
      kind: 'delivered',
      timing: { connectMs: expect.any(Number) },
    });
    expect(bodies).toEqual(['first', 'second', 'second']);
    const metrics = await (await fetch(telemetry.metricsUrl)).text();
    expect(metrics).toMatch(/^webhooks_requests_resent_total(\{.*\})? 1$/m);
    expect(metrics).toMatch(/^webhooks_connections_opened_total(\{.*\})? 2$/m);
    await telemetry.stop();
  });

  test('is replaced once: a new one that is closed is a failure', async () => {
    const receiver = await peer((socket, nth) =>
      onRequest(socket, (_body, request) => {
        if (nth === 1 && request === 1) socket.write(OK);
        else socket.end();
      }),
    );
    const send = sender();
    await send(receiver.url);
    expect(await send(receiver.url)).toMatchObject({ kind: 'failed', status: 0 });
    expect(receiver.connections()).toBe(2);
    expect(await send(receiver.url)).toMatchObject({ kind: 'failed' });
    expect(receiver.connections()).toBe(3);
  });

  test('is a failure after the first byte of the response', async () => {
    let requests = 0;
    const receiver = await peer((socket) =>
      onRequest(socket, (_body, request) => {
        requests += 1;
        if (request === 1) socket.write(OK);
        else socket.end('HTTP/1.1 2');
      }),
    );
    const send = sender();
    await send(receiver.url);
    expect(await send(receiver.url)).toMatchObject({ kind: 'failed', status: 0 });
    expect(requests).toBe(2);
  });

  test('is noticed before the request, when the receiver closed it in time', async () => {
    let closed = 0;
    const receiver = await peer((socket) => {
      socket.once('close', () => {
        closed += 1;
      });
      onRequest(socket, () => {
        socket.write(OK);
        setTimeout(() => socket.end(), 5);
      });
    });
    const send = sender();
    for (const nth of [1, 2, 3]) {
      expect((await send(receiver.url)).kind).toBe('delivered');
      await until(() => closed === nth);
    }
  });
});

describe('tls', () => {
  const authority = createAuthority('test authority');
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
});
