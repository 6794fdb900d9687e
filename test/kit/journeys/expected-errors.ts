import { randomUUID } from 'node:crypto';
import { expect } from '@jest/globals';
import type { Operation } from '../../../services/contract/operation.ts';
import type { Received, Sent } from '../gateway/rest-client.ts';

/** The version that serves each path segment. '' names no version, so the oldest supported one serves. */
export const SEGMENTS = [
  ['v1', '2026-07'],
  ['2026-07', '2026-07'],
  ['2026-10', '2026-10'],
  ['unstable', 'unstable'],
  ['', '2026-07'],
] as const;

export interface ExpectedError {
  readonly status: number;
  /** The body in released versions. */
  readonly body: unknown;
  /** The code of the problem document that `unstable` returns instead. */
  readonly code: string;
  readonly headers?: Readonly<Record<string, unknown>>;
}

export const text = expect.stringMatching(/\S/);

/** The common shape of error bodies. */
export const MESSAGE = { message: text, errors: {} };

const WARNING =
  'The unstable version may change without notice and must not be used in production.';

/** Compares a response with an expected error: status, headers and the exact body. */
export function expectError(
  response: Received,
  version: string,
  { status, body, code, headers = {} }: ExpectedError,
): void {
  const isUnstable = version === 'unstable';
  expect(response.status).toBe(status);
  expect(response.body).toEqual(
    isUnstable
      ? { type: text, title: text, status, detail: text, code, errors: expect.any(Array) }
      : body,
  );
  expect(response.headers['content-type']).toBe(
    isUnstable ? 'application/problem+json' : 'application/json',
  );
  expectCommonHeaders(response, version);
  expect(response.headers).toMatchObject(headers);
}

/** Asserts the headers that every response under `/api` has. */
function expectCommonHeaders({ headers }: Received, version: string): void {
  expect(headers['x-request-id']).toMatch(/^[\w.-]{1,128}$/);
  expect(headers['x-service-api-version']).toBe(version);
  expect(headers['cache-control']).toBe('no-store');
  expect(headers['x-service-api-warning']).toBe(version === 'unstable' ? WARNING : undefined);
  expect(headers).not.toHaveProperty('etag');
  expect(headers).not.toHaveProperty('access-control-allow-origin');
}

/** The path of an operation in a version segment. */
export function pathIn(segment: string, path: string): string {
  return segment === '' ? `/api${path}` : `/api/${segment}${path}`;
}

/** An id that does not exist. */
const MISSING_ID = 987_654_321;
/** A `webhook-id` that does not exist. */
export const MISSING_DELIVERY = 'msg_0199e1a4-7b20-8abc-8def-0123456789ab';
export const UNAUTHORIZED = {
  status: 401,
  body: { errors: 'Unauthorized.' },
  code: 'UNAUTHORIZED',
};
export const FORBIDDEN = {
  status: 403,
  body: { message: 'This action is unauthorized.' },
  code: 'FORBIDDEN',
};
/** The 404 of each operation that names an object. */
export const OWN_404: Readonly<Partial<Record<Operation['id'], unknown>>> = {
  getWebhook: { errors: { code: 'NOT_FOUND' } },
  updateWebhook: { errors: { code: 'NOT_FOUND' } },
  deleteWebhook: { errors: { code: 'NOT_FOUND' } },
  listDeliveries: { errors: { code: 'NOT_FOUND' } },
  retryDeliveries: { errors: { code: 'NOT_FOUND' } },
  replayDelivery: { errors: { code: 'NOT_FOUND' } },
  testWebhook: { errors: { code: 'NOT_FOUND' } },
  rotateWebhookSecret: { errors: { code: 'NOT_FOUND' } },
  getWebhookSecret: { errors: { code: 'NOT_FOUND' } },
  endEarlierSecrets: { errors: { code: 'NOT_FOUND' } },
  getReplay: { errors: { code: 'NOT_FOUND' } },
  cancelReplay: { errors: { code: 'NOT_FOUND' } },
  getDestination: { code: 'NOT_FOUND', message: text },
  updateDestination: { code: 'NOT_FOUND', message: text },
  getReturnDetails: { errors: { message: 'No return found with this ID.' } },
  getEligibility: { errors: { message: text } },
  submitReturn: { errors: { message: text } },
  createFraudReport: { errors: { message: text } },
  listEffects: { errors: { message: text } },
  cancelReturn: { errors: { message: text } },
  getReturnTimeline: { errors: { message: text } },
  getCart: { errors: { message: text } },
  recordArrival: { errors: { message: text } },
  recordLabel: { errors: { message: text } },
  updateLabel: { errors: { message: text } },
  recordGiftCard: { errors: { message: text } },
  processReturn: { errors: { message: text, code: 'NOT_FOUND' } },
};
const HOOK = {
  topic: 'return',
  trigger: 'return.closed',
  url: 'https://hooks.example.com/x',
};
const VALID_BODY: Readonly<Partial<Record<Operation['id'], object>>> = {
  createWebhook: HOOK,
  updateWebhook: HOOK,
  testWebhook: {},
  rotateWebhookSecret: {},
  previewReplay: { from: '2026-11-20T10:00:00Z', webhook_id: MISSING_ID },
  startReplay: { from: '2026-11-20T10:00:00Z', webhook_id: MISSING_ID },
  assessDispositions: { items: [{ line_item_id: MISSING_ID }] },
  gradeItems: { items: [{ line_item_id: MISSING_ID, category: 'grade_b' }] },
  updateDestination: { name: 'North' },
  submitReturn: { order_name: '#nobodys', items: [{ provider_line_item_id: 1, quantity: 1 }] },
  createFraudReport: {},
  recordLabel: { carrier: 'Evri' },
  updateLabel: { status: 'in_transit', occurred_at: '2026-11-20T10:00:00Z' },
  recordGiftCard: { order_id: 7, amount: '8.00', currency: 'GBP' },
  cancelReturn: {},
  processReturn: {},
  createCart: { cart: [1] },
};

/** An operation that names its return in the body. */
function arrivalAt(return_id: string | number): object {
  return { return_id: Number(return_id), unexpected: [{ title: 'A hat', quantity: 1 }] };
}

/** A request that is valid except for its id, or for a line item that does not exist. */
export function requestOf(
  { id, method, path, keyed }: Operation,
  pathId: string | number = MISSING_ID,
  deliveryId = MISSING_DELIVERY,
): Sent {
  const selector = SELECTORS[id];
  const query = selector ? `?${selector}=${pathId}` : '';
  const json = id === 'recordArrival' ? arrivalAt(pathId) : VALID_BODY[id];
  return {
    method,
    ...(keyed === 'required' && { headers: { 'Idempotency-Key': randomUUID() } }),
    path: `${path.replace(/\{(\w+)\}/g, (_, name) => (name === 'delivery_id' ? deliveryId : String(pathId)))}${query}`,
    ...(json && { json }),
  };
}

/** The parameter of each operation whose query selects an object. */
const SELECTORS: Readonly<Partial<Record<Operation['id'], string>>> = {
  getReturnDetails: 'return_id',
  getEligibility: 'provider_order_id',
};

/** The challenge after a key that is not accepted, whatever the reason. */
export const REJECTED_KEY_CHALLENGE =
  'ApiKey realm="rms", header="X-Authorization", error="invalid_token", error_description="unknown, mistyped, expired or revoked key"';

let lastAddress = 0;

/** Headers with a new client address, so that its rejected credentials do not count for other tests. */
export function newIp(): Record<string, string> {
  lastAddress += 1;
  return { 'x-forwarded-for': `203.0.${lastAddress >> 8}.${lastAddress & 255}` };
}
