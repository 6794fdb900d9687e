import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/kit/until.ts';
import type { Admission } from '../../auth/rate-limits.ts';
import type { SignedIn } from '../../oauth/tokens/access-token.ts';
import { forwardResponse } from '../router.ts';
import { createOriginRules } from './origins.ts';
import { createRequestGuard } from './request-guard.ts';

const PUBLIC_URL = 'https://returns.example.com';
const USER: SignedIn = {
  userId: 5n,
  email: 'ada@example.com',
  name: null,
  shopId: 7n,
  shopName: 'Shop',
  sandbox: false,
  currency: 'GBP',
  role: 'owner',
  clientId: 'rms-mcp',
  grantId: 'g'.repeat(43),
  app: 'claude.ai',
  selfName: null,
  isReadOnly: false,
};
const CALL = { jsonrpc: '2.0', id: 9, method: 'tools/call' };

function guardWith(o: {
  check?: (token: string) => Promise<SignedIn | undefined>;
  take?: () => Promise<Admission>;
  rejected?: (address: string) => Promise<Admission>;
  request?: (userId: bigint) => Promise<Admission>;
  isBlocked?: boolean;
}) {
  return createRequestGuard({
    tokens: { check: o.check ?? (async () => USER) },
    toolCalls: {
      points: 600,
      take: o.take ?? (async () => ({ admitted: true })),
      isUsedUp: () => false,
      rest: () => ({ points: 600, seconds: 60 }),
      reset: () => {},
    },
    limits: {
      rejected: o.rejected ?? (async () => ({ admitted: true })),
      request: o.request ?? (async () => ({ admitted: true })),
      isBlocked: () => o.isBlocked ?? false,
    },
    clientIp: () => '203.0.113.7',
    publicUrl: PUBLIC_URL,
    origins: createOriginRules({ publicUrl: PUBLIC_URL, allowedOrigins: [] }),
  });
}

/** A request with the parts that the guard reads. */
function requestWith(headers: Record<string, string> = {}, method = 'POST'): IncomingMessage {
  const all = { host: 'returns.example.com', authorization: 'Bearer good', ...headers };
  return { method, headers: all, socket: {} } as unknown as IncomingMessage;
}

describe('the request guard of /mcp', () => {
  test('returns the signed-in user, and an actor without the e-mail address', async () => {
    expect(await guardWith({}).check(requestWith())).toEqual({
      user: USER,
      actor: { kind: 1, id: '5', name: '', through: 'assistant claude.ai' },
      source: '203.0.113.7',
    });
  });

  test('responds with 503, not 401, while tokens cannot be checked', async () => {
    const check = async () => {
      throw Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
    };
    const checked = await guardWith({ check }).check(requestWith());
    expect(checked).toMatchObject({ response: { status: 503, headers: { 'Retry-After': '5' } } });
  });

  test('a bug is not treated as an outage', async () => {
    const check = async () => {
      throw new TypeError('a bug');
    };
    await expect(guardWith({ check }).check(requestWith())).rejects.toThrow('a bug');
  });

  test('tool calls get 503 while they cannot be counted', async () => {
    const take = async (): Promise<Admission> => ({
      admitted: false,
      retryAfterS: 5,
      unavailable: true,
    });
    const response = await guardWith({ take }).countToolCall(CALL, USER);
    expect(response).toMatchObject({
      status: 503,
      body: { json: { id: 9, error: { code: -32603 } } },
    });
  });

  test('too many tool calls get 429 with Retry-After and the id of the request', async () => {
    const take = async (): Promise<Admission> => ({ admitted: false, retryAfterS: 42 });
    const guard = guardWith({ take });
    expect(await guard.countToolCall(CALL, USER)).toMatchObject({
      status: 429,
      headers: { 'Retry-After': '42' },
      body: { json: { id: 9, error: { code: 42900 } } },
    });
    expect(await guard.countToolCall({ ...CALL, method: 'tools/list' }, USER)).toBeUndefined();
  });

  test('requests of a user are counted for every method, before the body is read', async () => {
    const request = async (userId: bigint): Promise<Admission> =>
      userId === USER.userId ? { admitted: false, retryAfterS: 7 } : { admitted: true };
    for (const method of ['POST', 'GET', 'DELETE', 'OPTIONS']) {
      expect(await guardWith({ request }).check(requestWith({}, method))).toMatchObject({
        response: {
          status: 429,
          headers: { 'Retry-After': '7' },
          body: { json: { id: null, error: { code: 42900 } } },
        },
      });
    }
  });

  test.each([
    ['no token', { authorization: '' }],
    ['a rejected token', {}],
    ['an unknown origin', { origin: 'https://evil.example' }],
    ['an unknown host', { host: 'evil.example' }],
  ])('an address with too many rejected requests gets 429: %s', async (_why, headers) => {
    const rejected = async (address: string): Promise<Admission> =>
      address === '203.0.113.7' ? { admitted: false, retryAfterS: 9 } : { admitted: true };
    const guard = guardWith({ rejected, check: async () => undefined });
    expect(await guard.check(requestWith(headers))).toMatchObject({
      response: { status: 429, headers: { 'Retry-After': '9' } },
    });
  });

  test('a recently rejected token from a blocked address is not checked again', async () => {
    for (const [isBlocked, checks] of [
      [true, 2],
      [false, 4],
    ] as const) {
      const tokens: string[] = [];
      const check = async (token: string) => void tokens.push(token);
      const guard = guardWith({ isBlocked, check });
      for (const token of ['one', 'two', 'one', 'two']) {
        await guard.check(requestWith({ authorization: `Bearer ${token}` }));
      }
      expect(tokens).toHaveLength(checks);
    }
  });

  test('a valid token is admitted from an address with too many rejected requests', async () => {
    const rejected = async (): Promise<Admission> => ({ admitted: false, retryAfterS: 9 });
    expect(await guardWith({ rejected }).check(requestWith())).toMatchObject({ user: USER });
  });

  test.each([
    ['Basic Z29vZA==', false],
    ['good', false],
    ['Bearerx good', false],
    ['', false],
    ['Bearer', true],
    ['Bearer a b', true],
    ['bearer !', true],
  ])(
    'authorization %j is rejected, with error="invalid_token": %j',
    async (authorization, isBadToken) => {
      const checked = await guardWith({}).check(requestWith({ authorization }));
      const challenge = isBadToken
        ? expect.stringContaining('error="invalid_token"')
        : expect.not.stringContaining('error=');
      expect(checked).toMatchObject({
        response: { status: 401, headers: { 'WWW-Authenticate': challenge } },
      });
    },
  );

  test.each([
    ['https://returns.example.com', undefined],
    ['https://evil.example', 403],
    ['http://returns.example.com', 403],
    ['https://returns.example.com:444', 403],
  ])('every part of an origin is compared: %s', async (origin, status) => {
    const checked = await guardWith({}).check(requestWith({ origin }));
    expect('response' in checked ? checked.response.status : undefined).toBe(status);
  });
});

describe('a forwarded response', () => {
  /** The listeners that the gateway adds to a response of this route. */
  const OWN_LISTENERS = 4;

  const server = createServer();
  afterEach(async () => {
    const closed = once(server.close(), 'close');
    server.closeAllConnections();
    await closed;
  });

  /** Forwards `body` as an event stream. Returns both ends of the stream. */
  async function forwarded(body: ReadableStream): Promise<{
    readonly res: ServerResponse;
    readonly received: IncomingMessage;
    readonly finished: Promise<void>;
  }> {
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const { port } = server.address() as AddressInfo;
    const sent = request({ port, host: '127.0.0.1', agent: false }).end();
    const [req, res] = (await once(server, 'request')) as [IncomingMessage, ServerResponse];
    for (let nth = 0; nth < OWN_LISTENERS; nth += 1) res.once('close', () => {});
    const response = new Response(body, { headers: { 'content-type': 'text/event-stream' } });
    const finished = forwardResponse(response, { req, res, headers: {}, reserve: () => undefined });
    const [received] = (await once(sent, 'response')) as [IncomingMessage];
    return { res, received, finished };
  }

  test('a stream arrives completely, and Node does not warn of a listener leak', async () => {
    let more: ((text?: string) => void) | undefined;
    const body = new ReadableStream({
      start(controller) {
        more = (text) =>
          text === undefined ? controller.close() : controller.enqueue(Buffer.from(text));
      },
    });
    const { res, received, finished } = await forwarded(body);
    let text = '';
    received.setEncoding('utf8').on('data', (piece) => {
      text += piece;
    });
    more?.('data: 1\n\n');
    await until(() => text !== '');
    expect(res.listenerCount('close')).toBeLessThanOrEqual(res.getMaxListeners());
    // More than the socket's buffers hold.
    const large = 'x'.repeat(8 * 2 ** 20);
    more?.(large);
    more?.();
    await finished;
    await once(received, 'end');
    expect(text === `data: 1\n\n${large}`).toBe(true);
  });

  test('the source ends when the client disconnects', async () => {
    let cancelled = false;
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(Buffer.from('data: 1\n\n')),
      cancel() {
        cancelled = true;
      },
    });
    const { received, finished } = await forwarded(body);
    received.destroy();
    await finished;
    await until(() => cancelled);
  });
});
