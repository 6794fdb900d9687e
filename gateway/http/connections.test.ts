import { once } from 'node:events';
import {
  Agent,
  createServer,
  get,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from '@jest/globals';
import { beforeStop, closeAll, HEAD, serve } from '../../test/kit/gateway/http-bench.ts';
import { until } from '../../test/kit/until.ts';
import { HttpError } from '../errors.ts';
import { sendLarge } from './large-response.ts';
import { readBody } from './receive-body.ts';
import type { EndReason } from './server.ts';
import { startHttpServer } from './server.ts';

afterEach(closeAll);

const HALF_A_HEAD = 'GET / HTTP/1.1\r\nhost: x\r\nx: ';

const ok: RequestListener = (_req, res) => void res.end('ok');

describe('a connection whose client keeps its side open', () => {
  test.each([
    ['headers that never end', HALF_A_HEAD, 408],
    ['nothing at all', '', 408],
    ['a body that never ends', `POST / HTTP/1.1\r\n${HEAD}content-length: 5\r\n\r\nx`, 408],
    ['bytes that are not HTTP', 'nonsense\r\n\r\n', 400],
    ['headers too large', `GET / HTTP/1.1\r\n${HEAD}x: ${'y'.repeat(20_000)}`, 431],
    ['a tunnel', `CONNECT x:443 HTTP/1.1\r\n${HEAD}\r\n`, 400],
  ])('is closed after %s', async (_, bytes, status) => {
    const waits: RequestListener = (req, res) => void req.resume().on('end', () => res.end('ok'));
    const { client, open } = await serve(waits, { headersMs: 100, requestMs: 100 });
    const one = await client(bytes);
    await until(() => one.isOver() && open() === 0);
    expect(one.received()).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  });

  test('is closed after a response and then bytes that are not HTTP', async () => {
    const { client, open } = await serve(ok);
    const one = await client(`GET / HTTP/1.1\r\n${HEAD}\r\n`);
    await until(() => one.received().includes('ok'));
    one.socket.write('nonsense\r\n\r\n');
    await until(() => one.isOver() && open() === 0);
    expect(one.received()).toMatch(/ok.*HTTP\/1.1 400 /s);
  });
});

test('a full server closes the new connection, and says so in its metrics', async () => {
  const pending: ServerResponse[] = [];
  const { client, ended } = await serve((_req, res) => void pending.push(res), {
    maxConnections: 1,
  });
  const first = await client(`GET / HTTP/1.1\r\n${HEAD}\r\n`);
  await until(() => pending.length === 1);
  const second = await client(`GET / HTTP/1.1\r\n${HEAD}\r\n`);
  await until(() => second.isOver());
  expect(ended).toEqual(['too many connections']);
  pending[0]?.end('ok');
  await until(() => first.received().includes('ok'));
});

/** A client with one connection, which it reuses. */
function keepAliveClient(port: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  beforeStop(() => agent.destroy());
  return async () => {
    const req = get({ port, host: '127.0.0.1', agent });
    const [res]: IncomingMessage[] = await once(req, 'response');
    if (!res) throw new Error('there is no response');
    await once(res.resume(), 'end');
    return { isReused: req.reusedSocket, connection: res.headers.connection };
  };
}

describe('a client with an idle connection, when the server ends its connections', () => {
  test('gets a response to its next request, with `Connection: close`', async () => {
    const { server } = await serve(ok, { idleAtStopMs: 60_000 });
    const send = keepAliveClient(server.port);
    expect(await send()).toEqual({ isReused: false, connection: 'keep-alive' });
    server.endConnections();
    expect(await send()).toEqual({ isReused: true, connection: 'close' });
    // The server accepts connections until it stops.
    expect(await send()).toEqual({ isReused: false, connection: 'close' });
  });

  test('can send that request even after the server has stopped to accept connections', async () => {
    const { server, open } = await serve(ok, { idleAtStopMs: 60_000 });
    const send = keepAliveClient(server.port);
    await send();
    const stopped = server.stop();
    await expect(keepAliveClient(server.port)()).rejects.toThrow('ECONNREFUSED');
    expect(await send()).toEqual({ isReused: true, connection: 'close' });
    await stopped;
    expect(open()).toBe(0);
  });

  test('does not delay the stop for longer than the configured time', async () => {
    const { server, ended } = await serve(ok, { idleAtStopMs: 50 });
    await keepAliveClient(server.port)();
    await server.stop();
    // At the end of the drain, after 20 s, all connections would be closed.
    expect(ended).toEqual([]);
  });

  test('gets `Connection: close` in the response to a request that was in flight', async () => {
    const pending: ServerResponse[] = [];
    const { server } = await serve((_req, res) => void pending.push(res));
    const response = keepAliveClient(server.port)();
    await until(() => pending.length === 1);
    server.endConnections();
    pending[0]?.end('ok');
    expect(await response).toMatchObject({ connection: 'close' });
  });
});

test('requests that a client sends at once are handled one after the other', async () => {
  const concurrent: number[] = [];
  let inProgress = 0;
  const { client } = await serve((req, res) => {
    const nth = Number(req.headers.nth);
    inProgress += 1;
    concurrent.push(inProgress);
    res.once('finish', () => {
      inProgress -= 1;
    });
    setTimeout(() => res.end(`ok ${nth};`), 10 - nth);
  });
  const nths = Array.from({ length: 10 }, (_, nth) => nth);
  const requestOf = (nth: number) => `GET / HTTP/1.1\r\n${HEAD}nth: ${nth}\r\n\r\n`;
  const one = await client(nths.map(requestOf).join(''));
  await until(() => one.received().includes('ok 9;'));
  expect([...one.received().matchAll(/ok (\d);/g)].map(([, nth]) => Number(nth))).toEqual(nths);
  expect(Math.max(...concurrent)).toBe(1);
  // The connection is still usable.
  one.socket.write(requestOf(0));
  await until(() => one.received().match(/ok 0;/g)?.length === 2);
});

describe('large messages', () => {
  const MIB = 1024 * 1024;
  /** A minimum rate that only a stalled client falls below. */
  const RATE = { bytesPerS: 1, windowMs: 200 };

  const cleanups: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0)) await cleanup();
  });

  async function serve(listener: RequestListener) {
    const ended: EndReason[] = [];
    const server = await startHttpServer(listener, {
      host: '127.0.0.1',
      port: 0,
      counts: { opened: () => {}, closed: () => {}, ended: (reason) => ended.push(reason) },
    });
    cleanups.push(() => server.stop());
    return { port: server.port, ended };
  }

  describe('a large response', () => {
    test('arrives unchanged, and its memory is released as the client reads', async () => {
      const body = `a${'\u{1f4e6}é'.repeat(2 * MIB)}`;
      const left: number[] = [];
      const { port } = await serve((_req, res) => {
        res.setHeader('Content-Length', Buffer.byteLength(body));
        void sendLarge(res, body, { reserved: { shrinkTo: (bytes) => left.push(bytes) } });
      });
      const [res]: IncomingMessage[] = await once(get({ port }), 'response');
      expect(res && (await text(res)) === body).toBe(true);
      expect(left.length).toBeGreaterThan(10);
      expect(left).toEqual(left.toSorted((a, b) => b - a));
      expect(left.at(-1)).toBe(0);
    });

    test('that the client does not read is aborted, and the connection is closed', async () => {
      const { port, ended } = await serve((_req, res) => {
        void sendLarge(res, 'x'.repeat(32 * MIB), { rate: RATE });
      });
      const socket = connect(port, '127.0.0.1')
        .pause()
        .on('error', () => {});
      socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
      await until(() => ended.length > 0);
      expect(ended).toEqual(['answer not read']);
      socket.destroy();
    });
  });

  describe('a large body', () => {
    /** The result of reading the body. */
    async function reading(
      send: (socket: ReturnType<typeof connect>) => void,
      lateMs = 60_000,
    ): Promise<unknown> {
      const result = Promise.withResolvers<unknown>();
      const reserved = { growTo: () => {}, requireCapacity: () => {} };
      const bounds = { maxBytes: 4 * MIB, meter: { bodyBytes: 0 }, reserved, rate: RATE, lateMs };
      const server = createServer((req, res) => {
        readBody(req, res, bounds).then((bytes) => result.resolve(bytes?.length), result.resolve);
      });
      await once(server.listen(0, '127.0.0.1'), 'listening');
      const { port } = server.address() as AddressInfo;
      const socket = connect(port, '127.0.0.1').on('error', () => {});
      const head = ['POST / HTTP/1.1', 'host: x', 'content-type: application/json'];
      socket.write(`${head.join('\r\n')}\r\ncontent-length: ${2 * MIB}\r\n\r\n`);
      send(socket);
      cleanups.push(async () => {
        socket.destroy();
        server.close();
      });
      return result.promise;
    }

    test('that stops arriving is rejected', async () => {
      const result = await reading((socket) => void socket.write(Buffer.alloc(1.5 * MIB, ' ')));
      expect(result).toBeInstanceOf(HttpError);
      expect(result).toMatchObject({ error: { status: 408 } });
    });

    test('that stops arriving before it is large is rejected as soon as it is late', async () => {
      const result = await reading((socket) => void socket.write('{'), 50);
      expect(result).toMatchObject({ error: { status: 408 } });
    });

    test('that keeps arriving is read', async () => {
      expect(await reading((socket) => void socket.write(Buffer.alloc(2 * MIB, ' ')))).toBe(
        2 * MIB,
      );
    });
  });
});
