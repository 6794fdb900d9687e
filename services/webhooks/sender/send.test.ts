import { createServer } from 'node:http';
import { describe, expect, test } from '@jest/globals';
import { testTelemetry } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import { createSender } from './send.ts';
import {
  LOOPBACK,
  listen,
  OK,
  onRequest,
  peerOf,
  sendingFixtures,
  untilResponse,
} from './testing/sending.ts';

const { sender, peer } = sendingFixtures();

describe('an attempt', () => {
  test('is delivered by any 2xx, and returns the response', async () => {
    const receiver = await peer((socket) => onRequest(socket, () => socket.write(OK)));
    expect(await sender()(receiver.url)).toMatchObject({
      kind: 'delivered',
      status: 200,
      error: '',
      excerpt: 'ok',
      retryAfterMs: undefined,
    });
  });

  test.each([
    [201, 'delivered'],
    [204, 'delivered'],
    [299, 'delivered'],
    [300, 'failed'],
    [304, 'failed'],
    [400, 'failed'],
    [410, 'gone'],
    [429, 'throttled'],
    [500, 'failed'],
    [599, 'failed'],
    [999, 'failed'],
  ])('that is answered %i is %s', async (status, kind) => {
    const receiver = await peer((socket) =>
      onRequest(socket, () =>
        socket.write(`HTTP/1.1 ${status} X\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n`),
      ),
    );
    const isDelivered = kind === 'delivered';
    expect(await sender()(receiver.url)).toMatchObject({
      kind,
      status,
      error: isDelivered ? '' : `answered ${status}`,
      retryAfterMs: isDelivered ? undefined : 7_000,
    });
  });

  test('sends the body unchanged, to the saved path and query', async () => {
    const seen: string[] = [];
    const receiver = await peer((socket) => {
      socket.on('data', (data) => seen.push(data.toString('utf8')));
      onRequest(socket, () => socket.write(OK));
    });
    const body = Buffer.from('{"name":"Grüße 😀\\u0000"}');
    await sender()(`http://127.0.0.1:${receiver.port}/a%2Fb/ü?x=1&y=%20`, body);
    const text = seen.join('');
    expect(text).toMatch(/^POST \/a%2Fb\/%C3%BC\?x=1&y=%20 HTTP\/1\.1\r\n/);
    expect(text).toContain(`host: 127.0.0.1:${receiver.port}\r\n`);
    expect(text).toContain(`content-length: ${body.length}\r\n`);
    expect(text.endsWith(body.toString('utf8'))).toBe(true);
  });

  test('of several Retry-After headers the latest applies', async () => {
    const receiver = await peer((socket) =>
      onRequest(socket, () =>
        socket.write(
          'HTTP/1.1 503 X\r\nretry-after: 5\r\nRetry-After: 60\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n',
        ),
      ),
    );
    expect(await sender()(receiver.url)).toMatchObject({ retryAfterMs: 60_000 });
  });

  test.each([
    [503, 'failed', 7_000],
    [429, 'throttled', 7_000],
    [410, 'failed', 7_000],
    [200, 'failed', undefined],
  ])(
    'whose answer %i breaks off is %s, and its Retry-After applies',
    async (status, kind, retryAfterMs) => {
      const receiver = await peer((socket) =>
        onRequest(socket, () => {
          socket.write(`HTTP/1.1 ${status} X\r\nretry-after: 7\r\ncontent-length: 9\r\n\r\nso`);
          socket.end();
        }),
      );
      expect(await sender()(receiver.url)).toMatchObject({
        kind,
        status,
        error: 'connection closed without a complete answer',
        retryAfterMs,
      });
    },
  );

  test('whose response never ends times out, and its Retry-After applies', async () => {
    const receiver = await peer((socket) =>
      onRequest(socket, () =>
        socket.write('HTTP/1.1 429 X\r\nretry-after: 7\r\ncontent-length: 9\r\n\r\nso'),
      ),
    );
    const send = sender({ attemptMs: 600 });
    expect(await untilResponse(() => send(receiver.url))).toMatchObject({
      kind: 'timeout',
      retryAfterMs: 7_000,
    });
  });

  test.each([
    ['by the clock of the answer', 'Date: Sat, 21 Nov 2026 10:00:00 GMT\r\n', 60_000],
    ['by ours when the answer tells no time', '', 120_000],
    ['by ours when the answer tells none that there is', 'Date: yesterday\r\n', 120_000],
  ])('that is to come again at a date counts %s', async (_, date, retryAfterMs) => {
    const receiver = await peer((socket) =>
      onRequest(socket, () =>
        socket.write(
          `HTTP/1.1 503 X\r\n${date}Retry-After: Sat, 21 Nov 2026 10:01:00 GMT\r\ncontent-length: 0\r\n\r\n`,
        ),
      ),
    );
    const now = () => new Date('2026-11-21T09:59:00Z');
    expect(await sender({ now })(receiver.url)).toMatchObject({ retryAfterMs });
  });

  test('to a closed port is a refused connection', async () => {
    const server = createServer();
    const close = await listen(server);
    const { url } = peerOf(server);
    await close();
    expect(await sender()(url)).toMatchObject({ status: 0, error: 'connection refused' });
  });

  test('in flight when the process stops is a failure', async () => {
    const receiver = await peer(() => {});
    const { send, close } = createSender({ policy: LOOPBACK });
    const sending = send({ url: receiver.url, headers: {}, body: Buffer.from('{}') });
    await until(() => receiver.connections() === 1);
    close();
    expect(await sending).toMatchObject({ kind: 'failed', status: 0 });
  });
});

describe('an address', () => {
  test('that is not allowed is counted, by stage', async () => {
    const telemetry = await testTelemetry();
    const policy = { allowedOrigins: [], stackPorts: () => [] };
    const send = sender({ policy, meter: telemetry.meter, resolve: async () => ['10.0.0.1'] });
    expect(await send('https://127.0.0.1/')).toMatchObject({
      error: expect.stringContaining('address not allowed: it must not be a private'),
    });
    for (const _ of [1, 2]) {
      expect(await send('https://hooks.example.com/')).toMatchObject({
        kind: 'failed',
        error: 'address not allowed',
      });
    }
    const metrics = await (await fetch(telemetry.metricsUrl)).text();
    expect(metrics).toMatch(/^webhooks_addresses_refused_total\{.*stage="url".*\} 1$/m);
    expect(metrics).toMatch(/^webhooks_addresses_refused_total\{.*stage="connect".*\} 2$/m);
    await telemetry.stop();
  });

  test('of this stack is rejected as soon as it is known, on a kept connection too', async () => {
    const receiver = await peer((socket) => onRequest(socket, () => socket.write(OK)));
    const own: number[] = [];
    const send = sender({ policy: { ...LOOPBACK, stackPorts: () => own } });
    expect((await send(receiver.url)).kind).toBe('delivered');
    own.push(receiver.port);
    expect(await send(receiver.url)).toMatchObject({
      kind: 'failed',
      error: expect.stringContaining('one of this service'),
    });
  });

  test('by name may be allowed for development, and is resolved by this machine', async () => {
    const receiver = await peer((socket) => onRequest(socket, () => socket.write(OK)));
    const policy = { allowedOrigins: ['http://localhost:*'], stackPorts: () => [] };
    const url = `http://localhost:${receiver.port}/`;
    expect(await sender({ policy })(url)).toMatchObject({ kind: 'delivered' });
    expect(await sender()(url)).toMatchObject({ kind: 'failed', status: 0 });
  });
});

describe('the timing', () => {
  test('has exactly the parts that happened', async () => {
    const receiver = await peer((socket) =>
      onRequest(socket, () => {
        setTimeout(() => {
          socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n');
          // In small steps: a process that stood still for a moment runs all due timers together.
          let steps = 20;
          const pace = setInterval(() => {
            steps -= 1;
            if (steps > 0) return;
            clearInterval(pace);
            socket.write('ok');
          }, 6);
        }, 60);
      }),
    );
    const send = sender();
    const first = await send(receiver.url);
    expect(first.timing).toEqual({
      dnsMs: null,
      connectMs: expect.any(Number),
      tlsMs: null,
      waitMs: expect.any(Number),
      readMs: expect.any(Number),
    });
    expect(first.timing.waitMs).toBeGreaterThanOrEqual(50);
    expect(first.timing.readMs).toBeGreaterThanOrEqual(70);
    const { connectMs, waitMs, readMs } = first.timing;
    const parts = (connectMs ?? 0) + (waitMs ?? 0) + (readMs ?? 0);
    expect(parts).toBeLessThanOrEqual(first.durationMs + 3);
    const second = await send(receiver.url);
    expect(second.timing).toMatchObject({ dnsMs: null, connectMs: null, tlsMs: null });
    expect(receiver.connections()).toBe(1);
  });

  test('ends where the attempt ended', async () => {
    const receiver = await peer((socket) =>
      onRequest(socket, () => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n')),
    );
    const send = sender({ attemptMs: 600 });
    const { timing } = await untilResponse(() => send(receiver.url));
    expect(timing).toMatchObject({ waitMs: expect.any(Number), readMs: null });
  });
});
