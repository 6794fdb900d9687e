import { createSecretKey } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { actor, newShop } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { payloadSection } from '../../contract/openapi/document.ts';
import { NO_PUBLIC_ADDRESS } from '../../platform/outbound/failure.ts';
import type { Resolve } from '../../platform/outbound/resolver.ts';
import { attemptHeaders } from '../delivery/attempt/runner.ts';
import { HEADERS_BYTES, LEFT_OUT, MAX_HEADERS, packHeaders } from './send-result.ts';
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

const SOURCE = {
  webhookId: 'msg_1',
  trigger: 'return.closed',
  eventId: 'event',
  apiVersion: '2026-07',
  sunset: undefined,
  revision: 3n,
  traceparent: '',
  sandbox: false,
  test: false,
  keys: [createSecretKey(Buffer.alloc(32))],
  body: Buffer.from('{}'),
};

interface Parameter {
  readonly name: string;
  readonly required: boolean;
}

/** The names of the headers in the OpenAPI documents, in lower case. */
function documented(isIncluded: (parameter: Parameter) => boolean): string[] {
  const operation: unknown = payloadSection('2026-07').return?.post;
  const parameters: Parameter[] = Reflect.get(Object(operation), 'parameters');
  return parameters.filter(isIncluded).map(({ name }) => name.toLowerCase());
}

/** The names of the headers of an attempt, without those that describe its body. */
function sent(source: typeof SOURCE | object): string[] {
  const headers = attemptHeaders({ ...SOURCE, ...source }, new Date());
  return Object.keys(headers)
    .map((name) => name.toLowerCase())
    .filter((name) => name !== 'content-type');
}

test('the OpenAPI documents have every header that an attempt can have, and no other', () => {
  const all = sent({
    sunset: 'Fri, 01 Oct 2027 00:00:00 GMT',
    traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
    sandbox: true,
    test: true,
  });
  expect(all.toSorted()).toEqual(documented(() => true).toSorted());
});

test('an attempt always has the headers that the OpenAPI documents require', () => {
  expect(sent({})).toEqual(expect.arrayContaining(documented(({ required }) => required)));
});

const stored = (headers: Parameters<typeof packHeaders>[0]): Record<string, string> =>
  JSON.parse(packHeaders(headers));

describe('the stored headers of a response', () => {
  test('are those that the receiver sent, in its order, also without a body', async () => {
    const receiver = await peer((socket) =>
      onRequest(socket, () =>
        socket.write(
          'HTTP/1.1 503 X\r\nServer: edge\r\nRetry-After: 7\r\nVia: a\r\nvia: b\r\nContent-Length: 0\r\n\r\n',
        ),
      ),
    );
    const { headers } = await sender()(receiver.url);
    expect(headers).toBe('{"server":"edge","retry-after":"7","via":"a, b","content-length":"0"}');
  });

  test('are empty without a response, and there for one that breaks off', async () => {
    const silent = await peer((socket) => onRequest(socket, () => socket.end()));
    expect(await sender()(silent.url)).toMatchObject({ status: 0, headers: '' });
    const broken = await peer((socket) =>
      onRequest(socket, () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nso')),
    );
    expect(await sender()(broken.url)).toMatchObject({ headers: '{"content-length":"9"}' });
    expect(packHeaders({})).toBe('');
  });

  test.each([
    ['set-cookie', ['session=s3cret; HttpOnly', 'b=2']],
    ['x-auth-token', 's3cret'],
    ['x-api-key', 's3cret'],
    ['apikey', 's3cret'],
    ['x-amz-security-token', 's3cret'],
    ['proxy-authentication-info', 's3cret'],
    ['x-debug', 'Bearer s3cret'],
    ['x-user', 'user eyJhbGciOiJIUzI1NiJ9.s3cret'],
    ['www-authenticate', 'Negotiate s3cret'],
  ])('have no value of %s: it may be a credential', (name, value) => {
    expect(stored({ [name]: value })).toEqual({ [name]: LEFT_OUT });
  });

  test('keep a challenge, which explains a 401', () => {
    const challenge = 'Bearer realm="shop", error="invalid_token"';
    expect(stored({ 'www-authenticate': challenge })).toEqual({ 'www-authenticate': challenge });
  });

  test.each([
    ['https://u:s3cret@a.example/sign-in?token=s3cret#x', 'https://a.example/sign-in?…'],
    ['/sign-in', '/sign-in'],
  ])('have the address %s without its user and query', (location, expected) => {
    expect(stored({ location })).toEqual({ location: expected });
  });

  test('are at most 20, and say how many more there were', () => {
    const many = Object.fromEntries(Array.from({ length: 25 }, (_, n) => [`x-${n}`, `${n}`]));
    const packed = stored(many);
    expect(Object.keys(packed)).toEqual([
      ...Array.from({ length: MAX_HEADERS }, (_, n) => `x-${n}`),
      '…',
    ]);
    expect(packed['…']).toBe('5 more, not stored');
  });

  test.each([
    ['long texts', 'x'.repeat(16_000)],
    ['characters of several bytes', '😀'.repeat(1_000)],
    ['characters that JSON escapes', '"\\'.repeat(1_000)],
    ['control characters', '\0\u0007\u009f'.repeat(1_000)],
  ])('have at most 2 KiB and valid texts: %s', (_, value) => {
    const packed = packHeaders(
      Object.fromEntries(Array.from({ length: 200 }, (__, n) => [`x-${n}${value}`, value])),
    );
    expect(Buffer.byteLength(packed)).toBeLessThanOrEqual(HEADERS_BYTES);
    expect(packed.isWellFormed()).toBe(true);
    expect(packed).not.toMatch(/\p{Cc}/u);
    expect(Object.keys(JSON.parse(packed)).at(-1)).toBe('…');
  });

  test('have a header with any name', () => {
    expect(stored(JSON.parse('{"__proto__":"a","constructor":"b"}'))).toEqual(
      JSON.parse('{"__proto__":"a","constructor":"b"}'),
    );
  });
});

describe('what partners see of an error', () => {
  /** Answers of name servers for each name: an inside address, a mixture, or an error. */
  const ANSWERS: Readonly<Record<string, readonly string[] | string>> = {
    'inside.example.com': ['10.0.0.1'],
    'both.example.com': ['93.184.215.14', '127.0.0.1'],
    'nothing.example.com': [],
    'missing.example.com': 'ENOTFOUND',
    'empty.example.com': 'ENODATA',
    'broken.example.com': 'ESERVFAIL',
    'refused.example.com': 'EREFUSED',
    'late.example.com': 'ETIMEOUT',
  };

  const resolve: Resolve = async (name) => {
    const answer = ANSWERS[name] ?? [];
    if (typeof answer !== 'string') return answer;
    throw Object.assign(new Error(`queryA ${answer} ${name}`), { code: answer });
  };

  let webhooks: WebhooksUnderTest;
  beforeAll(async () => {
    webhooks = await runWebhooks({ resolve });
  });
  afterAll(() => webhooks.stop());

  /** The first attempt to send to an address with this name: as shown to partners, and as stored. */
  async function attemptAt(name: string) {
    const shopId = newShop();
    const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: `https://${name}/` });
    await webhooks.client.sendTest({ shopId, actor, subscriptionId });
    const seen = await until(async () => (await webhooks.deliveries(shopId))[0]?.attempts[0]);
    const { rows } = await webhooks.db.pool.query<{ error: string }>(
      'select error from attempts where shop_id = $1 order by number limit 1',
      [shopId],
    );
    return { seen, stored: rows[0]?.error };
  }

  test('partners cannot distinguish a name of an inside address from one that does not resolve', async () => {
    const stored = new Set<string | undefined>();
    for (const name of Object.keys(ANSWERS)) {
      const attempt = await attemptAt(name);
      const { error, status, timing, responseExcerpt } = attempt.seen;
      expect([name, error, status, responseExcerpt]).toEqual([name, NO_PUBLIC_ADDRESS, 0, '']);
      expect(timing).not.toHaveProperty('dnsMs');
      stored.add(attempt.stored);
    }
    // Operators of the service can.
    expect(stored).toContain('address not allowed');
    expect(stored).toContain('host name not found');
  });
});
