import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { testTelemetry } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import { type Dial, dialTcp } from '../../platform/outbound/open-socket.ts';
import { OK, onRequest, sendingFixtures } from './testing/sending.ts';

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
