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
export function expectCommonHeaders({ headers }: Received, version: string): void {
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
export const MISSING_ID = 987_654_321;
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
export const INVALID = { status: 422, body: MESSAGE, code: 'VALIDATION_FAILED' };
export const BAD_BODY = { status: 400, body: MESSAGE, code: 'BAD_REQUEST' };
export const MEDIA_TYPE = { status: 415, body: MESSAGE, code: 'UNSUPPORTED_MEDIA_TYPE' };
export const TOO_LARGE = { status: 413, body: MESSAGE, code: 'PAYLOAD_TOO_LARGE' };
export const RATE_LIMITED = {
  status: 429,
  body: MESSAGE,
  code: 'RATE_LIMITED',
  headers: { 'retry-after': expect.stringMatching(/^[1-9]\d*$/) },
};
export const WEBHOOK_REJECTED = {
  status: 422,
  body: { errors: { code: 'FAILED_TO_CREATE_WEBHOOK', message: text } },
  code: 'FAILED_TO_CREATE_WEBHOOK',
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
  createFraudReport: { errors: { message: text } },
  listEffects: { errors: { message: text } },
  getCart: { errors: { message: text } },
  recordLabel: { errors: { message: text } },
  updateLabel: { errors: { message: text } },
  recordGiftCard: { errors: { message: text } },
  processReturn: { errors: { message: text, code: 'NOT_FOUND' } },
};
export const HOOK = {
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
  createFraudReport: {},
  recordLabel: { carrier: 'Evri' },
  updateLabel: { status: 'in_transit', occurred_at: '2026-11-20T10:00:00Z' },
  recordGiftCard: { order_id: 7, amount: '8.00', currency: 'GBP' },
  processReturn: {},
  createCart: { cart: [1] },
};

/** A request that is valid except for its id, or for a line item that does not exist. */
export function requestOf(
  { id, method, path }: Operation,
  pathId: string | number = MISSING_ID,
  deliveryId = MISSING_DELIVERY,
): Sent {
  const query = id === 'getReturnDetails' ? `?return_id=${pathId}` : '';
  const json = VALID_BODY[id];
  return {
    method,
    path: `${path.replace(/\{(\w+)\}/g, (_, name) => (name === 'delivery_id' ? deliveryId : String(pathId)))}${query}`,
    ...(json && { json }),
  };
}

/** A JSON body that is sent unchanged. */
export const raw = (path: string, body: string | Uint8Array, headers = {}): Sent => ({
  path,
  raw: body,
  headers: { 'content-type': 'application/json', ...headers },
});

/** The challenge of API keys. */
export const KEY_CHALLENGE = 'ApiKey realm="rms", header="X-Authorization"';
/** The challenge after a key that is not accepted, whatever the reason. */
export const REJECTED_KEY_CHALLENGE = `${KEY_CHALLENGE}, error="invalid_token", error_description="unknown, mistyped, expired or revoked key"`;

let lastAddress = 0;

/** Headers with a new client address, so that its rejected credentials do not count for other tests. */
export function newIp(): Record<string, string> {
  lastAddress += 1;
  return { 'x-forwarded-for': `203.0.${lastAddress >> 8}.${lastAddress & 255}` };
}
