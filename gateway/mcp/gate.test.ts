import type { IncomingMessage } from 'node:http';
import { describe, expect, test } from '@jest/globals';
import type { Admission } from '../auth/rate-limits.ts';
import type { SignedIn } from '../oauth/access-token.ts';
import { createGate } from './gate.ts';
import { createOriginRules } from './origins.ts';

const PUBLIC_URL = 'https://returns.example.com';
const USER: SignedIn = {
  userId: 5n,
  email: 'ada@example.com',
  name: null,
  shopId: 7n,
  shopName: 'Shop',
  currency: 'GBP',
  role: 'owner',
  clientId: 'rms-mcp',
  grantId: 'g'.repeat(43),
};
const CALL = { jsonrpc: '2.0', id: 9, method: 'tools/call' };

function gateWith(o: {
  check?: (token: string) => Promise<SignedIn | undefined>;
  take?: () => Promise<Admission>;
  rejected?: (address: string) => Promise<Admission>;
  request?: (userId: bigint) => Promise<Admission>;
  isBlocked?: boolean;
}) {
  return createGate({
    tokens: { check: o.check ?? (async () => USER) },
    toolCalls: {
      take: o.take ?? (async () => ({ admitted: true })),
      isUsedUp: () => false,
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

/** A request with the parts that the gate reads. */
function requestWith(headers: Record<string, string> = {}, method = 'POST'): IncomingMessage {
  const given = { host: 'returns.example.com', authorization: 'Bearer good', ...headers };
  return { method, headers: given, socket: {} } as unknown as IncomingMessage;
}

describe('the gate of /mcp', () => {
  test('admits a signed-in user, with id and name and without the e-mail address', async () => {
    expect(await gateWith({}).admit(requestWith())).toEqual({
      user: USER,
      actor: { kind: 1, id: '5', name: '' },
      source: '203.0.113.7',
    });
  });

  test('answers 503, not 401, while tokens cannot be checked', async () => {
    const check = async () => {
      throw Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
    };
    const admitted = await gateWith({ check }).admit(requestWith());
    expect(admitted).toMatchObject({ answer: { status: 503, headers: { 'Retry-After': '5' } } });
  });

  test('a bug is not treated as an outage', async () => {
    const check = async () => {
      throw new TypeError('a bug');
    };
    await expect(gateWith({ check }).admit(requestWith())).rejects.toThrow('a bug');
  });

  test('while calls cannot be counted, they get 503', async () => {
    const take = async (): Promise<Admission> => ({
      admitted: false,
      retryAfterS: 5,
      unavailable: true,
    });
    const answer = await gateWith({ take }).count(CALL, USER);
    expect(answer).toMatchObject({
      status: 503,
      body: { json: { id: 9, error: { code: -32603 } } },
    });
  });

  test('too many calls get 429 with Retry-After and the id of the request', async () => {
    const take = async (): Promise<Admission> => ({ admitted: false, retryAfterS: 42 });
    const gate = gateWith({ take });
    expect(await gate.count(CALL, USER)).toMatchObject({
      status: 429,
      headers: { 'Retry-After': '42' },
      body: { json: { id: 9, error: { code: 42900 } } },
    });
    expect(await gate.count({ ...CALL, method: 'tools/list' }, USER)).toBeUndefined();
  });

  test('requests of a user are counted for every method, before the body is read', async () => {
    const request = async (userId: bigint): Promise<Admission> =>
      userId === USER.userId ? { admitted: false, retryAfterS: 7 } : { admitted: true };
    for (const method of ['POST', 'GET', 'DELETE', 'OPTIONS']) {
      expect(await gateWith({ request }).admit(requestWith({}, method))).toMatchObject({
        answer: {
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
    ['a foreign origin', { origin: 'https://evil.example' }],
    ['a foreign host', { host: 'evil.example' }],
  ])('an address with too many rejected requests gets 429: %s', async (_why, headers) => {
    const rejected = async (address: string): Promise<Admission> =>
      address === '203.0.113.7' ? { admitted: false, retryAfterS: 9 } : { admitted: true };
    const gate = gateWith({ rejected, check: async () => undefined });
    expect(await gate.admit(requestWith(headers))).toMatchObject({
      answer: { status: 429, headers: { 'Retry-After': '9' } },
    });
  });

  test('a token that was just rejected is not checked again for a blocked address', async () => {
    for (const [isBlocked, judged] of [
      [true, 2],
      [false, 4],
    ] as const) {
      const tokens: string[] = [];
      const check = async (token: string) => void tokens.push(token);
      const gate = gateWith({ isBlocked, check });
      for (const token of ['one', 'two', 'one', 'two']) {
        await gate.admit(requestWith({ authorization: `Bearer ${token}` }));
      }
      expect(tokens).toHaveLength(judged);
    }
  });

  test('a valid token is admitted from an address with too many rejected requests', async () => {
    const rejected = async (): Promise<Admission> => ({ admitted: false, retryAfterS: 9 });
    expect(await gateWith({ rejected }).admit(requestWith())).toMatchObject({ user: USER });
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
    '%j is rejected; it is an invalid token and not another scheme: %j',
    async (authorization, isBadToken) => {
      const admitted = await gateWith({}).admit(requestWith({ authorization }));
      const challenge = isBadToken
        ? expect.stringContaining('error="invalid_token"')
        : expect.not.stringContaining('error=');
      expect(admitted).toMatchObject({
        answer: { status: 401, headers: { 'WWW-Authenticate': challenge } },
      });
    },
  );

  test.each([
    ['https://returns.example.com', undefined],
    ['https://evil.example', 403],
    ['http://returns.example.com', 403],
    ['https://returns.example.com:444', 403],
  ])('of an origin every part counts: %s', async (origin, status) => {
    const admitted = await gateWith({}).admit(requestWith({ origin }));
    expect('answer' in admitted ? admitted.answer.status : undefined).toBe(status);
  });
});
