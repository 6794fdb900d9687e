import { once } from 'node:events';
import {
  Agent,
  createServer,
  get,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from '@jest/globals';
import {
  beforeStop,
  type Client,
  closeAll,
  HEAD,
  serve,
} from '../../test/kit/gateway/http-bench.ts';
import { until } from '../../test/kit/until.ts';
import { HttpError } from '../errors.ts';
import type { EndReason } from './connections.ts';
import { sendLarge } from './large-response.ts';
import { readBody } from './receive-body.ts';
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

  test('is closed after a response, if the body does not arrive', async () => {
    const { client, open, ended } = await serve(ok);
    const one = await client(`POST / HTTP/1.1\r\n${HEAD}content-length: 5\r\n\r\n`);
    await until(() => one.isOver() && open() === 0);
    expect(one.received()).toMatch(/^HTTP\/1.1 200 /);
    expect(ended).toEqual(['body not sent']);
  });

  test('stays open after a response, if the body arrives later', async () => {
    const { client } = await serve(ok, { rejectedMs: 60_000 });
    const one = await client(`POST / HTTP/1.1\r\n${HEAD}content-length: 5\r\n\r\n`);
    await until(() => one.received().includes('ok'));
    one.socket.write(`12345GET / HTTP/1.1\r\n${HEAD}\r\n`);
    await until(() => one.received().match(/ok/g)?.length === 2);
  });

  test('is closed after a response that the client does not read', async () => {
    const { client, open, ended } = await serve((_req, res) => res.end(Buffer.alloc(2 ** 26)), {
      responseMs: 100,
    });
    await client(`GET / HTTP/1.1\r\n${HEAD}\r\n`, false);
    await until(() => ended.length === 1 && open() === 0);
    expect(ended).toEqual(['answer not read']);
  });
});

describe('a full server', () => {
  test('replaces a connection that waits for its client', async () => {
    const { client, ended, open } = await serve(ok, { maxConnections: 2, rejectedMs: 60_000 });
    const oldest = await client(HALF_A_HEAD);
    await until(() => open() === 1);
    const slowBody = await client(`POST /slow HTTP/1.1\r\n${HEAD}content-length: 5\r\n\r\nx`);
    await until(() => open() === 2);
    const third = await client(`GET / HTTP/1.1\r\n${HEAD}\r\n`);
    await until(() => third.received().includes('ok'));
    expect(oldest.isOver()).toBe(true);
    expect(slowBody.isOver()).toBe(false);
    expect(ended).toEqual(['too many connections']);
  });

  test('keeps connections with a complete request, and closes the new connection', async () => {
    const pending: ServerResponse[] = [];
    const { client } = await serve((_req, res) => void pending.push(res), { maxConnections: 1 });
    const first = await client(`GET / HTTP/1.1\r\n${HEAD}\r\n`);
    await until(() => pending.length === 1);
    const second = await client(`GET / HTTP/1.1\r\n${HEAD}\r\n`);
    await until(() => second.isOver());
    pending[0]?.end('ok');
    await until(() => first.received().includes('ok'));
  });

  describe('with clients that do not read their responses', () => {
    /** A server with two connections, whose responses are larger than the buffers of the kernel. */
    async function unread(unreadMs: number) {
      const sockets = new Map<string | undefined, Socket>();
      const large: RequestListener = (req, res) => {
        sockets.set(req.url, req.socket);
        res.end(Buffer.alloc(req.url === '/ok' ? 2 : 2 ** 26, 'o'));
      };
      const limits = { maxConnections: 2, unreadMs, checkMs: 20, responseMs: 60_000 };
      const { client, ended } = await serve(large, limits);
      for (const path of ['/first', '/second']) {
        await client(`GET ${path} HTTP/1.1\r\n${HEAD}\r\n`, false);
        await until(() => (sockets.get(path)?.writableLength ?? 0) > 0);
        await sleep(100);
      }
      return { client, ended, isOpen: (path: string) => sockets.get(path)?.destroyed === false };
    }

    test('replaces the connection whose response is unread for longest', async () => {
      const { client, ended, isOpen } = await unread(50);
      expect(ended).toEqual([]);
      const third = await client(`GET /ok HTTP/1.1\r\n${HEAD}\r\n`);
      await until(() => third.received().endsWith('oo'));
      expect([isOpen('/first'), isOpen('/second')]).toEqual([false, true]);
      expect(ended).toEqual(['too many connections']);
    });

    test('keeps connections whose responses are not unread for that long', async () => {
      const { client, isOpen } = await unread(60_000);
      const third = await client();
      await until(() => third.isOver());
      expect([isOpen('/first'), isOpen('/second')]).toEqual([true, true]);
    });
  });

  test('serves other clients during thousands of incomplete requests', async () => {
    const { client, open } = await serve(ok, { maxConnections: 200 });
    const half: Promise<Client>[] = [];
    for (let nth = 0; nth < 2_000; nth += 1) half.push(client(HALF_A_HEAD));
    const valid = await client(`GET / HTTP/1.1\r\n${HEAD}\r\n`);
    await until(() => valid.received().includes('ok'));
    await Promise.all(half);
    expect(open()).toBeLessThanOrEqual(200);
  });
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

describe('a stopping server', () => {
  test.each([
    ['headers', HALF_A_HEAD],
    ['a body', `POST / HTTP/1.1\r\n${HEAD}content-length: 5\r\n\r\nx`],
  ])('does not wait for the time limit of %s', async (_, bytes) => {
    const waits: RequestListener = (req, res) => void req.resume().on('end', () => res.end('ok'));
    const { client, server, open, ended } = await serve(waits, { idleAtStopMs: 0 });
    await client(bytes);
    await until(() => open() === 1);
    await server.stop();
    // Connections that are closed at the end of the drain, after 20 s, have no reason.
    expect(ended).toEqual(['stopping']);
  });
});

describe('a client that sends several requests at once', () => {
  const GET = `GET / HTTP/1.1\r\n${HEAD}\r\n`;

  test('gets the responses in order, and each request is handled after the previous response', async () => {
    const began: number[] = [];
    const concurrent: number[] = [];
    let inProgress = 0;
    const { client } = await serve((req, res) => {
      const nth = Number(req.headers.nth);
      began.push(nth);
      inProgress += 1;
      concurrent.push(inProgress);
      res.once('finish', () => {
        inProgress -= 1;
      });
      setTimeout(() => res.end(`ok ${nth};`), 10 - nth);
    });
    const nths = Array.from({ length: 10 }, (_, nth) => nth);
    const requestOf = (nth: number) => GET.replace(HEAD, `${HEAD}nth: ${nth}\r\n`);
    const one = await client(nths.map(requestOf).join(''));
    await until(() => one.received().includes('ok 9;'));
    expect([began, Math.max(...concurrent)]).toEqual([nths, 1]);
    expect([...one.received().matchAll(/ok (\d);/g)].map(([, nth]) => Number(nth))).toEqual(nths);
    // The connection is still usable.
    one.socket.write(requestOf(0));
    await until(() => one.received().match(/ok 0;/g)?.length === 2);
  });

  test('is disconnected if there are too many, and only the first is handled', async () => {
    const handled: ServerResponse[] = [];
    const { client, open, ended } = await serve((_req, res) => void handled.push(res));
    const one = await client(GET.repeat(1_400));
    await until(() => one.isOver() && open() === 0);
    expect(ended).toEqual(['too many requests']);
    expect(handled).toHaveLength(1);
    await until(() => handled[0]?.closed);
  });

  test('is disconnected if 256 other connections have several requests; those with one are not', async () => {
    const pending: ServerResponse[] = [];
    const { client, open, ended } = await serve((_req, res) => void pending.push(res));
    for (let nth = 0; nth < 256; nth += 1) await client(GET.repeat(2));
    await until(() => pending.length === 256);
    await client(GET);
    await until(() => pending.length === 257);
    const last = await client(GET.repeat(2));
    await until(() => last.isOver() && open() === 257);
    expect(ended).toEqual(['too many requests']);
    // A connection that has got its responses makes way.
    pending[0]?.end('ok');
    await until(() => pending.length === 259);
    await client(GET.repeat(2));
    await until(() => pending.length === 260);
    expect([open(), ended]).toEqual([258, ['too many requests']]);
  });

  test('that disconnects: the requests that wait are not handled', async () => {
    const handled: ServerResponse[] = [];
    const { client, open } = await serve((_req, res) => void handled.push(res));
    const one = await client(GET.repeat(3));
    await until(() => handled.length === 1);
    one.socket.destroy();
    await until(() => handled[0]?.closed && open() === 0);
    await new Promise((resolve) => setImmediate(resolve));
    expect(handled).toHaveLength(1);
  });

  test('gets no response after one with `Connection: close`, and those requests are not handled', async () => {
    let handled = 0;
    const { client, open } = await serve((_req, res) => {
      handled += 1;
      res.setHeader('Connection', 'close').end('ok');
    });
    const one = await client(GET.repeat(3));
    await until(() => one.isOver() && open() === 0);
    expect([handled, one.received().match(/ok/g)]).toEqual([1, ['ok']]);
  });
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
