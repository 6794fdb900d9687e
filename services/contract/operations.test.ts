import { expect, test } from '@jest/globals';
import { OPERATIONS } from './operations.ts';
import { openersAmong, SCOPE_RULES, SCOPES, type Scope, scopesOpening } from './scopes.ts';

test('the operations are those of the interface, and additions', () => {
  const rows = OPERATIONS.map((o) => `${o.method} ${o.path} ${o.success.status} ${o.addition}`);
  expect(rows).toEqual([
    'GET /webhooks 200 true',
    'POST /webhooks 201 true',
    'GET /webhooks/{id} 200 true',
    'PUT /webhooks/{id} 204 false',
    'DELETE /webhooks/{id} 204 false',
    'GET /webhooks/{id}/deliveries 200 true',
    'POST /webhooks/{id}/deliveries/retry 200 true',
    'POST /webhooks/{id}/deliveries/{delivery_id}/replay 200 true',
    'POST /webhooks/{id}/test 201 true',
    'POST /webhooks/{id}/secret/rotate 200 true',
    'GET /webhooks/{id}/secret 200 true',
    'DELETE /webhooks/{id}/secret/previous 204 true',
    'POST /webhook-replay-previews 200 true',
    'POST /webhook-replays 201 true',
    'GET /webhook-replays 200 true',
    'GET /webhook-replays/{id} 200 true',
    'POST /webhook-replays/{id}/cancel 200 true',
    'POST /dispositioning/assess 200 false',
    'POST /dispositioning/grade 200 true',
    'GET /destinations 200 true',
    'GET /destinations/{id} 200 true',
    'PUT /destinations/{id} 200 false',
    'GET /warehouse/expected 200 true',
    'POST /warehouse/arrivals 201 true',
    'GET /warehouse/returns 200 true',
    'GET /warehouse/return/details 200 false',
    'POST /returns/{id}/fraud-report 201 false',
    'GET /returns/{id}/effects 200 true',
    'GET /orders/eligibility 200 true',
    'POST /returns 201 true',
    'GET /policy 200 true',
    'POST /returns/{id}/cancel 200 true',
    'GET /returns/{id}/timeline 200 true',
    'POST /returns/{id}/labels 201 true',
    'PUT /labels/{id} 200 true',
    'POST /returns/{id}/gift-card 201 true',
    'POST /warehouse/return/{id}/process 200 false',
    'POST /cart 200 false',
    'GET /cart/{token} 200 true',
  ]);
});

test('each operation is opened by its scopes, and by those that include one of them', () => {
  expect(
    Object.fromEntries(OPERATIONS.map((one) => [one.id, scopesOpening(one).join(' ')])),
  ).toEqual({
    listWebhooks: 'developer_tools',
    createWebhook: 'developer_tools',
    getWebhook: 'developer_tools',
    updateWebhook: 'developer_tools',
    deleteWebhook: 'developer_tools',
    listDeliveries: 'developer_tools',
    retryDeliveries: 'developer_tools',
    replayDelivery: 'developer_tools',
    testWebhook: 'developer_tools',
    rotateWebhookSecret: 'developer_tools',
    getWebhookSecret: 'developer_tools',
    endEarlierSecrets: 'developer_tools',
    previewReplay: 'developer_tools',
    startReplay: 'developer_tools',
    listReplays: 'developer_tools',
    getReplay: 'developer_tools',
    cancelReplay: 'developer_tools',
    assessDispositions: 'returns warehouse',
    gradeItems: 'returns warehouse',
    listDestinations: 'destinations:read',
    getDestination: 'destinations:read',
    updateDestination: 'destinations:write',
    getPolicy: 'returns:read returns:submit returns',
    listReturns: 'returns returns:read',
    getReturnDetails: 'returns returns:read returns:submit warehouse',
    createFraudReport: 'returns',
    listEffects: 'returns returns:read',
    listExpected: 'warehouse returns',
    recordArrival: 'warehouse returns',
    getEligibility: 'returns:read returns:submit returns',
    submitReturn: 'returns:submit returns',
    cancelReturn: 'returns:submit returns',
    getReturnTimeline: 'returns:read returns',
    recordLabel: 'labels:write',
    updateLabel: 'labels:write',
    recordGiftCard: 'giftcards:write',
    processReturn: 'returns',
    createCart: 'carts',
    getCart: 'carts',
  });
});

test('operations of webhooks, providers and the scopes of returns take a bearer token, and only dispositioning returns 403', () => {
  const partners: readonly Scope[] = [
    ...(['returns:read', 'returns:submit', 'warehouse'] as const),
    ...(['developer_tools', 'labels:write', 'giftcards:write'] as const),
  ];
  for (const { id, credentials, scopes } of OPERATIONS) {
    const takesTokens = scopes.some((scope) => partners.includes(scope));
    expect({ id, credentials }).toEqual({
      id,
      credentials: takesTokens ? 'bearer-or-api-key' : 'api-key',
    });
  }
  const forbidden = OPERATIONS.filter((operation) => operation.forbidden === 'message-403');
  expect(forbidden.map(({ id }) => id)).toEqual(['assessDispositions', 'gradeItems']);
});

test('returns includes the scopes of parts, and no other scope includes any', () => {
  const included = SCOPES.flatMap((scope) => SCOPE_RULES[scope].includes ?? []);
  expect(included).toEqual(['returns:read', 'returns:submit', 'warehouse']);
  expect(SCOPE_RULES.returns.includes).toEqual(included);
  for (const part of included) {
    for (const operation of OPERATIONS.filter(({ scopes }) => scopes.includes(part))) {
      expect(openersAmong(['returns'], operation)).toEqual(['returns']);
    }
  }
});

test('only operations of the interface, and those that keys called before, use earlier keys first', () => {
  const earlier = OPERATIONS.filter((operation) => operation.earlierKeysFirst);
  expect(earlier.map(({ id }) => id)).toEqual([
    'assessDispositions',
    'gradeItems',
    'listReturns',
    'getReturnDetails',
    'listEffects',
  ]);
});

test('only dispositions may be larger than 1 MiB', () => {
  for (const { tag, body } of OPERATIONS) {
    if (body) expect(body.maxBytes).toBe(tag === 'Dispositions' ? 32 * 2 ** 20 : 2 ** 20);
  }
});

test('an operation on one object has its own 404', () => {
  for (const { id, path, notFound } of OPERATIONS) {
    const selects = ['getReturnDetails', 'recordArrival', 'getEligibility', 'submitReturn'];
    const names = path.includes('{') || selects.includes(id);
    expect({ id, own: notFound !== undefined }).toEqual({ id, own: names });
  }
});
