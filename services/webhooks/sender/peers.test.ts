import type { Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import { onRequest, sendingFixtures, untilResponse } from './testing/sending.ts';

const { sender, peer } = sendingFixtures();
const MIB = 1024 * 1024;

/** A receiver that responds to each request with these bytes. */
function answering(...parts: (string | Buffer)[]) {
  return peer((socket) =>
    onRequest(socket, () => {
      for (const part of parts) socket.write(part);
    }),
  );
}

/** Writes at full speed and without an end. */
function writeEndlessly(socket: Socket, chunk: string | Buffer): void {
  const more = () => {
    while (!socket.destroyed && socket.write(chunk));
  };
  socket.on('drain', more);
  more();
}

/** Writes every few milliseconds, without an end. */
function writeSlowly(socket: Socket, next: () => string, everyMs = 20): void {
  const timer = setInterval(() => socket.write(next()), everyMs);
  socket.once('close', () => clearInterval(timer));
}

describe('an attempt ends in time, whatever the peer does', () => {
  const ATTEMPT_MS = 400;
  test.each<[string, Parameters<typeof peer>[0], missing?: string]>([
    ['says nothing', () => {}],
    ['never reads', (socket) => socket.pause()],
    [
      'sends its headers slowly',
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\n');
        writeSlowly(socket, () => 'x-a: b\r\n');
      },
    ],
    [
      'sends its body slowly',
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n');
        writeSlowly(socket, () => 'x');
      },
      ': its end is missing',
    ],
    [
      'sends one byte of a status line at a time',
      (socket) => {
        const bytes = 'HTTP/1.1 200 OK\r\n'.split('');
        writeSlowly(socket, () => bytes.shift() ?? ' ', 50);
      },
    ],
    ['sends blank lines', (socket) => writeSlowly(socket, () => '\r\n')],
    [
      'sends trailers without end',
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n');
        writeSlowly(socket, () => 'x-a: b\r\n');
      },
      ': its end is missing',
    ],
    [
      'sends 100 Continue slowly',
      (socket) => writeSlowly(socket, () => 'HTTP/1.1 100 Continue\r\n\r\n', 50),
    ],
  ])('that %s', async (_what, serve, missing = '') => {
    const receiver = await peer(serve);
    const send = sender({ attemptMs: ATTEMPT_MS });
    // None of these peers ever ends, so the attempt's own deadline ends it. The fault suite measures how exact that is
    // on a busy machine.
    expect(await send(receiver.url, Buffer.alloc(8 * MIB, 'x'))).toMatchObject({
      kind: 'timeout',
      error: `no complete answer within ${ATTEMPT_MS} ms${missing}`,
    });
  });

  test('and returns the status that had arrived', async () => {
    const receiver = await answering('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf');
    const send = sender({ attemptMs: ATTEMPT_MS });
    expect(await untilResponse(() => send(receiver.url))).toMatchObject({
      kind: 'timeout',
      status: 200,
      excerpt: 'half',
      error: `no complete answer within ${ATTEMPT_MS} ms: its end is missing`,
    });
  });
});

describe('a response', () => {
  test('without an end counts after 64 KiB', async () => {
    const receiver = await peer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      writeEndlessly(socket, 'x'.repeat(10_000));
    });
    const result = await sender({ attemptMs: 15_000 })(receiver.url);
    expect(result).toMatchObject({ kind: 'delivered', status: 200, excerpt: 'x'.repeat(1024) });
  });

  test('with an error status and without an end is that error', async () => {
    const receiver = await answering('HTTP/1.1 500 X\r\n\r\n', Buffer.alloc(MIB, 'x'));
    expect(await sender()(receiver.url)).toMatchObject({ kind: 'failed', status: 500 });
  });

  test('with huge headers is rejected', async () => {
    const receiver = await answering(`HTTP/1.1 200 OK\r\nx: ${'x'.repeat(MIB)}\r\n\r\n`);
    expect(await sender()(receiver.url)).toMatchObject({
      kind: 'failed',
      status: 0,
      error: 'headers of the answer are too large',
    });
  });

  test('with endless headers is rejected', async () => {
    const receiver = await answering('HTTP/1.1 200 OK\r\n', 'x: y\r\n'.repeat(100_000));
    expect(await sender()(receiver.url)).toMatchObject({
      error: 'headers of the answer are too large',
    });
  });

  test('with endless chunk extensions is rejected before the deadline', async () => {
    const receiver = await peer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;');
      writeEndlessly(socket, 'x'.repeat(10_000));
    });
    // If the deadline had ended the attempt, the result would be a timeout.
    expect(await sender({ attemptMs: 15_000 })(receiver.url)).toMatchObject({ kind: 'failed' });
  });

  test('that is a gzip bomb is not inflated', async () => {
    const bomb = gzipSync(Buffer.alloc(40 * MIB));
    const head = `HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`;
    const receiver = await answering(head, bomb);
    const before = process.memoryUsage().rss;
    const result = await sender()(receiver.url);
    expect(result).toMatchObject({ kind: 'delivered', status: 200 });
    expect(result.excerpt.length).toBeLessThanOrEqual(1024);
    expect(process.memoryUsage().rss - before).toBeLessThan(30 * MIB);
  });

  test('keeps its text: no NUL, no broken characters, none cut in two', async () => {
    const bytes = Buffer.from([0x61, 0x00, 0xff, 0xc3, 0x28, 0x62]);
    const head = (length: number) => `HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n`;
    const odd = await answering(head(bytes.length), bytes);
    expect((await sender()(odd.url)).excerpt).toBe('a\ufffd\ufffd\ufffd(b');
    const long = Buffer.from(`x${'😀'.repeat(1_000)}`);
    const cut = await answering(head(long.length), long);
    expect((await sender()(cut.url)).excerpt).toBe(`x${'😀'.repeat(255)}`);
  });

  test.each([
    [
      '102 and 103 before it',
      'HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n',
    ],
    ['HTTP/1.0', 'HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok'],
    [
      'chunks and a trailer',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx: y\r\n\r\n',
    ],
    ['more than it says', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 500 X\r\n\r\n'],
    ['no reason', 'HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n'],
  ])('with %s is delivered', async (_what, answer) => {
    const receiver = await answering(answer);
    const send = sender();
    for (const _ of [1, 2]) {
      expect(await send(receiver.url)).toMatchObject({ kind: 'delivered', status: 200 });
    }
  });

  test('that ends with its connection is delivered', async () => {
    const receiver = await peer((socket) =>
      onRequest(socket, () => socket.end('HTTP/1.1 200 OK\r\n\r\nok')),
    );
    expect(await sender()(receiver.url)).toMatchObject({ kind: 'delivered', excerpt: 'ok' });
  });

  test.each([
    ['nothing', ''],
    ['no HTTP', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['101', 'HTTP/1.1 101 S\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'],
    ['100', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['too many informational answers', 'HTTP/1.1 103 E\r\n\r\n'.repeat(50)],
    ['no chunk size', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nok\r\n'],
    [
      'a chunk of 2^70',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n400000000000000000\r\n',
    ],
    ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nok'],
    ['a length that is none', 'HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nok'],
    [
      'length and chunks',
      'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['less than it says', 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok'],
    ['a status that is none', 'HTTP/1.1 20 OK\r\n\r\n'],
    ['a header without a colon', 'HTTP/1.1 200 OK\r\nx y\r\n\r\n'],
  ])('of %s is a failure, and says why', async (_what, answer) => {
    const receiver = await peer((socket) => onRequest(socket, () => socket.end(answer)));
    const result = await sender()(receiver.url);
    expect(result).toMatchObject({ kind: 'failed', error: expect.stringMatching(/\w/) });
    expect(result.error).not.toContain('127.0.0.1');
  });

  test('of 101, which was not requested, is reported as that', async () => {
    const receiver = await answering('HTTP/1.1 101 S\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n');
    expect(await sender()(receiver.url)).toMatchObject({ error: 'answer is not one to a POST' });
  });

  test('that is a reset is a failure', async () => {
    const receiver = await peer((socket) => onRequest(socket, () => socket.resetAndDestroy()));
    expect(await sender()(receiver.url)).toMatchObject({
      kind: 'failed',
      status: 0,
      error: 'connection reset',
    });
  });
});

test('a hundred concurrent endless responses need less than 50 MB', async () => {
  const chunk = Buffer.alloc(64 * 1024, 'x');
  const receiver = await peer((socket) => {
    socket.write('HTTP/1.1 500 X\r\n');
    socket.write('x: y\r\n\r\n');
    writeEndlessly(socket, chunk);
  });
  const send = sender({ attemptMs: 10_000 });
  await Promise.all(Array.from({ length: 20 }, () => send(receiver.url)));
  const before = process.memoryUsage().rss;
  let most = before;
  const watching = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss);
  }, 5);
  const results = await Promise.all(Array.from({ length: 100 }, () => send(receiver.url)));
  clearInterval(watching);
  expect(results.every(({ status }) => status === 500)).toBe(true);
  expect((most - before) / 1e6).toBeLessThanOrEqual(50);
});
