import { describe, expect, test } from '@jest/globals';
import { HEADERS_BYTES, LEFT_OUT, MAX_HEADERS, packHeaders } from './response-headers.ts';
import { onRequest, sendingFixtures } from './testing/sending.ts';

const { sender, peer } = sendingFixtures();

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
