import { describe, expect, test } from '@jest/globals';
import { onRequest, sendingFixtures, untilResponse } from './testing/sending.ts';

const { sender, peer } = sendingFixtures();

/** A receiver that responds to each request with these bytes. */
const answering = (answer: string | Buffer) =>
  peer((socket) => onRequest(socket, () => void socket.write(answer)));

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n';

describe('a response', () => {
  test.each([
    ['100', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['100 with a header', 'HTTP/1.1 100 Continue\r\nServer: x\r\n\r\n'],
    ['100 twice', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(2)],
    ['103', 'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n'],
    ['103, 100 and 199', 'HTTP/1.1 103 E\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 199 X\r\n\r\n'],
    ['a blank line and 100', '\r\nHTTP/1.1 100\r\n\r\n'],
  ])('after %s is waited for, with one request', async (_what, before) => {
    const bodies: string[] = [];
    const receiver = await peer((socket) =>
      onRequest(socket, (body) => {
        bodies.push(body);
        socket.write(before + OK);
      }),
    );
    const send = sender();
    for (const _ of [1, 2]) {
      expect(await send(receiver.url)).toMatchObject({ kind: 'delivered', status: 200 });
    }
    expect([bodies.length, receiver.connections()]).toEqual([2, 1]);
  });

  test('after 100 Continue is read in whatever parts it arrives, and its body is not changed', async () => {
    const echo = 'HTTP/1.1 100 Continue\r\n\r\n';
    const answer = `${echo}${echo}HTTP/1.1 200 OK\r\ncontent-length: ${echo.length}\r\n\r\n${echo}`;
    const receiver = await peer((socket) =>
      onRequest(socket, () => {
        socket.setNoDelay();
        const bytes = [...answer];
        const next = () => {
          const byte = bytes.shift();
          if (byte !== undefined) socket.write(byte, () => setImmediate(next));
        };
        next();
      }),
    );
    const send = sender();
    for (const _ of [1, 2]) {
      expect(await send(receiver.url)).toMatchObject({ kind: 'delivered', excerpt: echo });
    }
    expect(receiver.connections()).toBe(1);
  });

  test('and says what is missing when the response has neither a length nor an end', async () => {
    const receiver = await answering('HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nok');
    const send = sender({ attemptMs: 400 });
    expect(await untilResponse(() => send(receiver.url))).toMatchObject({
      kind: 'timeout',
      status: 200,
      error: `no complete answer within 400 ms: its end is missing, because it has no Content-Length and the connection stays open`,
    });
  });
  test.each([
    ['line feeds alone', 'HTTP/1.1 200 OK\nContent-Length: 0\n\n'],
    ['a space before a colon', 'HTTP/1.1 200 OK\r\nX-A : 1\r\nContent-Length: 0\r\n\r\n'],
    ['a folded header', 'HTTP/1.1 200 OK\r\nX-A: 1\r\n  more\r\nContent-Length: 0\r\n\r\n'],
    ['no chunk size', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n'],
    ['a status below 100', 'HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n'],
    ['a change to no protocol', 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
    ['another protocol', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['TLS', Buffer.from([0x15, 3, 1, 0, 2, 2, 80])],
  ])('with %s says that it is not HTTP, and why', async (_what, answer) => {
    const receiver = await answering(answer);
    expect(await sender()(receiver.url)).toMatchObject({
      kind: 'failed',
      error: expect.stringMatching(/^answer is not HTTP\/1\.1: \w[^:]+$/),
    });
  });

  test.each([
    ['two lengths', 'Content-Length: 2\r\nContent-Length: 2'],
    ['a length and chunks', 'Content-Length: 2\r\nTransfer-Encoding: chunked'],
    ['a length and a bad header', 'Content-Length: 2\r\nX-A : 1'],
  ])('with %s says that its headers may be the reason', async (_what, headers) => {
    const receiver = await answering(`HTTP/1.1 200 OK\r\n${headers}\r\n\r\nok`);
    expect(await sender()(receiver.url)).toMatchObject({
      kind: 'failed',
      error: 'answer is shorter or longer than it says, or its headers are not valid',
    });
  });

  test('without TLS says so', async () => {
    const receiver = await peer((socket) => {
      socket.once('data', () => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'));
    }, 'https');
    expect(await sender()(receiver.url)).toMatchObject({ error: 'answer is not TLS' });
  });
});
