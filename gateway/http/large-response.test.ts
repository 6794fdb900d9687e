import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type RequestListener } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from '@jest/globals';
import { until } from '../../test/kit/until.ts';
import { HttpError } from '../errors.ts';
import type { EndReason } from './connections.ts';
import { sendLarge } from './large-response.ts';
import { readBody } from './receive-body.ts';
import { startHttpServer } from './server.ts';

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
    expect(await reading((socket) => void socket.write(Buffer.alloc(2 * MIB, ' ')))).toBe(2 * MIB);
  });
});
