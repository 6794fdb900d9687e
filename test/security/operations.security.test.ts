import { beforeAll, describe, expect, test } from '@jest/globals';
import { UnsecuredJWT } from 'jose';
import { newKey } from '../../gateway/auth/key-format.ts';
import type { Operation } from '../../services/contract/operation.ts';
import { OPERATIONS, PARTNER_SCOPES } from '../../services/contract/operations.ts';
import { openersAmong, SCOPES, type Scope } from '../../services/contract/scopes.ts';
import type { Sent } from '../kit/gateway/rest-client.ts';
import {
  expectError,
  FORBIDDEN,
  MISSING_DELIVERY,
  newIp,
  requestOf,
  text,
  UNAUTHORIZED,
} from '../kit/journeys/expected-errors.ts';
import { journeyForTests } from '../kit/journeys/journey.ts';
import { idsIn, wholeShop } from '../kit/journeys/whole-shop.ts';

const journey = journeyForTests();

const keyOf = (name: string): string => journey.stack.shop.api_keys[name] ?? '';
const tokenOf = (name: string): string => journey.stack.shop.partner_tokens[name] ?? '';
const bearer = (token: string): Partial<Sent> => ({
  key: null,
  headers: { authorization: `Bearer ${token}` },
});

/** Credentials that every operation must reject. */
const INVALID_CREDENTIALS: Readonly<Record<string, () => Partial<Sent>>> = {
  nothing: () => ({ key: null }),
  'an empty key': () => ({ key: '' }),
  'a malformed key': () => ({ key: 'rms_short' }),
  'a made-up key with the right checksum': () => ({ key: newKey().text }),
  'a key with another secret': () => ({ key: otherSecret(keyOf('all')) }),
  'a revoked key': () => ({ key: keyOf('revoked') }),
  'an expired key': () => ({ key: keyOf('expired') }),
  'a key twice': () => ({ key: `${keyOf('all')}, ${keyOf('all')}` }),
  'a key as a bearer token': () => bearer(keyOf('all')),
  'a key as Basic': () => ({ key: null, headers: { authorization: `Basic ${keyOf('all')}` } }),
  'an expired partner token': () => bearer(tokenOf('expired')),
  'a partner token for another audience': () => bearer(tokenOf('wrong_audience')),
  'a partner token of an app that is not installed': () => bearer(tokenOf('not_installed')),
  'a partner token without a signature': () => bearer(unsigned(tokenOf('developer_tools'))),
  'a partner token as a key': () => ({ key: tokenOf('developer_tools') }),
  "an assistant's token": () => bearer(assistantToken()),
  "an assistant's token as a key": () => ({ key: assistantToken() }),
  'the service token': () => bearer(journey.stack.file.grpc.token ?? ''),
  'the service token as a key': () => ({ key: journey.stack.file.grpc.token ?? '' }),
};

/** The names of the keys: one for each scope, and one without any. */
const KEYS: readonly (Scope | 'none')[] = [...SCOPES, 'none'];

const opens = (operation: Operation, scope: string): boolean =>
  openersAmong([scope], operation).length > 0;

/** The response to a valid token without the scope. Operations that take no token do not read it. */
function refusalOfToken({ credentials, forbidden }: Operation) {
  return credentials === 'bearer-or-api-key' && forbidden === 'message-403'
    ? FORBIDDEN
    : UNAUTHORIZED;
}

function otherSecret(key: string): string {
  const other = newKey().text;
  return `${key.slice(0, 'rms_'.length + 12)}_${other.slice(-46)}`;
}

function unsigned(token: string): string {
  const claims: object = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
  return new UnsecuredJWT({ ...claims }).encode();
}

function assistantToken(): string {
  const owner = journey.stack.file.users.find(({ name }) => name === 'owner');
  return owner?.mcp_tokens[String(journey.stack.shop.id)] ?? '';
}

/** Sends the operation's request with a credential, from a separate address. */
function ask(operation: Operation, credential: Partial<Sent>, id?: number) {
  const { path, ...rest } = requestOf(operation, id);
  const headers = { ...rest.headers, ...newIp(), ...credential.headers };
  return journey.send({ ...rest, ...credential, headers, path: `/api/2026-10${path}` });
}

describe.each(OPERATIONS.map((operation) => ({ name: operation.id, operation })))(
  '$name',
  ({ operation }) => {
    test.each(Object.keys(INVALID_CREDENTIALS))('%s is rejected with 401', async (name) => {
      const credential = INVALID_CREDENTIALS[name]?.() ?? {};
      expectError(await ask(operation, credential), '2026-10', UNAUTHORIZED);
    });

    test('a credential in the URL has no effect', async () => {
      const { path, ...rest } = requestOf(operation);
      const sign = path.includes('?') ? '&' : '?';
      const query = `api_key=${keyOf('all')}&access_token=${tokenOf('developer_tools')}`;
      const answer = await journey.send({
        ...rest,
        key: null,
        path: `/api/2026-10${path}${sign}${query}`,
        headers: newIp(),
      });
      expectError(answer, '2026-10', UNAUTHORIZED);
    });

    test.each(KEYS)('a key with the scope %s allows exactly its operations', async (name) => {
      const answer = await ask(operation, { key: keyOf(name) });
      if (opens(operation, name)) return expect([401, 403]).not.toContain(answer.status);
      const refusal = operation.forbidden === 'message-403' ? FORBIDDEN : UNAUTHORIZED;
      return expectError(answer, '2026-10', refusal);
    });

    test('a partner token allows exactly the operations of its scope that take tokens', async () => {
      const takesTokens = operation.credentials === 'bearer-or-api-key';
      for (const scope of PARTNER_SCOPES) {
        const answer = await ask(operation, bearer(tokenOf(scope)));
        if (takesTokens && opens(operation, scope)) {
          expect([401, 403]).not.toContain(answer.status);
        } else expectError(answer, '2026-10', refusalOfToken(operation));
      }
      const without = await ask(operation, bearer(tokenOf('no_scope')));
      expectError(without, '2026-10', refusalOfToken(operation));
    });
  },
);

describe('with ids of another shop', () => {
  let before: string;
  let theirs: Awaited<ReturnType<typeof idsIn>>;
  beforeAll(async () => {
    theirs = await idsIn(journey, journey.stack.otherShop);
    before = await wholeShop(journey, journey.stack.otherShop);
  });

  const NAMED: Readonly<Partial<Record<Operation['id'], () => bigint>>> = {
    getWebhook: () => theirs.subscriptionId as bigint,
    updateWebhook: () => theirs.subscriptionId as bigint,
    deleteWebhook: () => theirs.subscriptionId as bigint,
    listDeliveries: () => theirs.subscriptionId as bigint,
    retryDeliveries: () => theirs.subscriptionId as bigint,
    replayDelivery: () => theirs.subscriptionId as bigint,
    testWebhook: () => theirs.subscriptionId as bigint,
    rotateWebhookSecret: () => theirs.subscriptionId as bigint,
    getWebhookSecret: () => theirs.subscriptionId as bigint,
    endEarlierSecrets: () => theirs.subscriptionId as bigint,
    getReplay: () => theirs.replayId as bigint,
    cancelReplay: () => theirs.replayId as bigint,
    getDestination: () => theirs.destinationId as bigint,
    updateDestination: () => theirs.destinationId as bigint,
    getReturnDetails: () => theirs.returnId as bigint,
    getEligibility: () => theirs.returnId as bigint,
    submitReturn: () => theirs.returnId as bigint,
    createFraudReport: () => theirs.returnId as bigint,
    listEffects: () => theirs.returnId as bigint,
    cancelReturn: () => theirs.returnId as bigint,
    getReturnTimeline: () => theirs.returnId as bigint,
    recordArrival: () => theirs.returnId as bigint,
    recordLabel: () => theirs.returnId as bigint,
    updateLabel: () => theirs.labelId as bigint,
    recordGiftCard: () => theirs.returnId as bigint,
    processReturn: () => theirs.returnId as bigint,
  };

  test.each(OPERATIONS.filter(({ path, notFound }) => notFound && !path.includes('{token}')))(
    '$id has the same response as for an id that does not exist',
    async (operation) => {
      const id = Number(NAMED[operation.id]?.());
      expect(id).toBeGreaterThan(0);
      const foreign = await ask(operation, {}, id);
      const nobodys = await ask(operation, {});
      expect(foreign.status).toBe(404);
      expect(withoutIds(foreign.text, id)).toBe(withoutIds(nobodys.text, id));
    },
  );

  test.each(['assess', 'grade'])('dispositioning/%s rejects the line item', async (operation) => {
    const answer = await journey.send({
      path: `/api/2026-10/dispositioning/${operation}`,
      json: { items: [{ line_item_id: Number(theirs.lineItemId), category: 'junk' }] },
    });
    expect([answer.status, answer.body]).toEqual([422, { message: text, errors: {} }]);
  });

  test('getCart has the same response as for a token that does not exist', async () => {
    const read = (token: string) => journey.send({ path: `/api/2026-10/cart/${token}` });
    const [foreign, nobodys] = [await read(theirs.token), await read('n'.repeat(43))];
    expect([foreign.status, foreign.body]).toEqual([404, nobodys.body]);
  });

  test('nothing of the other shop has changed', async () => {
    expect(await wholeShop(journey, journey.stack.otherShop)).toBe(before);
  });
});

function withoutIds(body: string, id: number): string {
  return body
    .replaceAll(String(id), '#')
    .replaceAll('987654321', '#')
    .replaceAll(MISSING_DELIVERY, '#');
}

describe('/mcp', () => {
  const METHODS = [
    'initialize',
    'tools/list',
    'tools/call',
    'prompts/list',
    'resources/list',
    'ping',
  ];
  const call = (method: string, headers: Readonly<Record<string, string>>) =>
    journey.send({
      path: '/mcp',
      key: null,
      headers: { ...newIp(), ...headers },
      json: { jsonrpc: '2.0', id: 1, method, params: {} },
    });

  test.each(METHODS)(
    '%s is rejected without a token, and with any other credential',
    async (method) => {
      const credentials = [
        {},
        { 'x-authorization': keyOf('all') },
        { authorization: `Bearer ${keyOf('all')}` },
        { authorization: `Bearer ${tokenOf('developer_tools')}` },
        { authorization: `Bearer ${journey.stack.file.grpc.token}` },
        { authorization: `Bearer ${unsigned(assistantToken())}` },
        { authorization: `Basic ${assistantToken()}` },
      ];
      for (const headers of credentials) {
        const answer = await call(method, headers);
        expect(answer.status).toBe(401);
        expect(answer.headers['www-authenticate']).toMatch(/^Bearer resource_metadata="/);
      }
    },
  );
});
