import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Operation } from '../../services/contract/operation.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { SCOPES } from '../../services/contract/scopes.ts';
import type { Received, Sent } from '../kit/gateway/rest-client.ts';
import {
  BAD_BODY,
  type ExpectedError,
  expectCommonHeaders,
  expectError,
  FORBIDDEN,
  HOOK,
  INVALID,
  KEY_CHALLENGE,
  MEDIA_TYPE,
  MESSAGE,
  MISSING_ID,
  newIp,
  OWN_404,
  pathIn,
  RATE_LIMITED,
  REJECTED_KEY_CHALLENGE,
  raw,
  requestOf,
  SEGMENTS,
  TOO_LARGE,
  text,
  UNAUTHORIZED,
  WEBHOOK_REJECTED,
} from '../kit/journeys/expected-errors.ts';
import { foreignIdOf } from '../kit/journeys/foreign-id.ts';
import { firstOf, type Journey, startJourney } from '../kit/journeys/journey.ts';
import { untilLimited } from '../kit/until.ts';

const lackingScope = ({ scope }: Operation): string =>
  `${KEY_CHALLENGE}, error="insufficient_scope", scope="${scope}"`;

let journey: Journey;
const ASSESS = '/dispositioning/assess';
const FRAUD = '/returns/1/fraud-report';
const PROCESS = '/warehouse/return/1/process';
const itemWith = (fields: object) => ({ items: [{ line_item_id: 1, ...fields }] });

beforeAll(async () => {
  journey = await startJourney();
}, 120_000);
afterAll(() => journey?.stop(), 60_000);

describe.each(SEGMENTS)('/api/%s, served by %s', (segment, version) => {
  const send = (sent: Sent): Promise<Received> =>
    journey.send({ ...sent, path: pathIn(segment, sent.path) });
  const rejects = async (sent: Sent, expected: ExpectedError) =>
    expectError(await send(sent), version, expected);

  test('401 without a credential, and with one that is wrong, revoked or expired', async () => {
    const { all = '', revoked, expired } = journey.stack.shop.api_keys;
    for (const operation of OPERATIONS) {
      const { credentials } = operation;
      const both = credentials === 'bearer-or-api-key';
      const challenge = both
        ? expect.stringMatching(/^Bearer .*ApiKey realm="rms", header="X-Authorization"$/)
        : KEY_CHALLENGE;
      const missing = { ...UNAUTHORIZED, headers: { 'www-authenticate': challenge } };
      await rejects({ ...requestOf(operation), key: null }, missing);
      for (const key of ['x', `${all}x`, revoked, expired]) {
        const wrong = { ...UNAUTHORIZED, headers: { 'www-authenticate': REJECTED_KEY_CHALLENGE } };
        await rejects({ ...requestOf(operation), ...(key && { key }), headers: newIp() }, wrong);
      }
    }
  });

  test('a credential without the scope: 403 for dispositioning, else 401', async () => {
    const keys = journey.stack.shop.api_keys;
    for (const operation of OPERATIONS) {
      const lacking = ['none', ...SCOPES.filter((scope) => scope !== operation.scope)];
      const headers = { 'www-authenticate': lackingScope(operation) };
      const is403 = operation.forbidden === 'message-403';
      const refusal = is403 ? FORBIDDEN : { ...UNAUTHORIZED, headers };
      for (const key of lacking.map((name) => keys[name] ?? '')) {
        await rejects({ ...requestOf(operation), key }, refusal);
      }
    }
  });

  test('invalid partner tokens: 401', async () => {
    const tokens = journey.stack.shop.partner_tokens;
    for (const kind of ['no_scope', 'expired', 'wrong_audience', 'not_installed']) {
      const error = kind === 'no_scope' ? 'insufficient_scope' : 'invalid_token';
      await rejects(
        {
          path: '/webhooks',
          headers: { ...newIp(), authorization: `Bearer ${tokens[kind]}` },
        },
        {
          ...UNAUTHORIZED,
          headers: { 'www-authenticate': expect.stringContaining(`error="${error}"`) },
        },
      );
    }
  });

  test('404 for an unknown path, 405 with Allow for an unknown method', async () => {
    for (const path of ['/nothing', '/webhooks/', '/Webhooks', '/webhooks/1/2', '/%zz', '']) {
      await rejects({ path }, { status: 404, body: MESSAGE, code: 'NOT_FOUND' });
    }
    for (const { path, method } of OPERATIONS) {
      const allow = expect.stringContaining(method);
      const expected = { status: 405, body: MESSAGE, code: 'METHOD_NOT_ALLOWED' };
      await rejects({ method: 'PATCH', path }, { ...expected, headers: { allow } });
    }
  });

  test('OPTIONS is 204 with Allow, and HEAD is GET without its body', async () => {
    for (const { path } of OPERATIONS) {
      const answer = await send({ method: 'OPTIONS', path, key: null });
      expect(answer).toMatchObject({ status: 204, text: '', headers: { allow: text } });
      expectCommonHeaders(answer, version);
    }
    const path = `/warehouse/return/details?return_id=${firstOf(journey.stack.shop, 'open').id}`;
    const [get, head] = [await send({ path }), await send({ method: 'HEAD', path })];
    expect(head).toMatchObject({ status: 200, text: '' });
    expect(head.headers['content-length']).toBe(get.headers['content-length']);
    expectCommonHeaders(head, version);
  });

  test.each([
    ['not JSON', raw('/cart', '{"cart":')],
    ['not an object', raw('/cart', '[1]')],
    ['nested 33 deep', raw('/cart', `{"cart":[1],"x":${'['.repeat(32)}${']'.repeat(32)}}`)],
    ['of 100,001 entries', raw('/cart', `{"cart":[1],"x":[${'0,'.repeat(100_000)}0]}`)],
    ['not UTF-8', raw('/cart', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]))],
    ['not gzip', raw('/cart', 'plain', { 'content-encoding': 'gzip' })],
  ])('400: a body that is %s', async (_, sent) => rejects(sent, BAD_BODY));

  test('a body nested 32 levels deep is accepted', async () => {
    const deep = `{"cart":[1],"x":${'['.repeat(31)}${']'.repeat(31)}}`;
    expect((await send(raw('/cart', deep))).status).toBe(200);
  });

  test.each([
    ['text', { 'content-type': 'text/plain' }],
    ['nothing named', { 'content-type': '' }],
    ['another JSON type', { 'content-type': 'application/vnd.api+json' }],
    ['another encoding', { 'content-encoding': 'br' }],
  ])('415: %s', async (_, headers) => rejects(raw('/cart', '{"cart":[1]}', headers), MEDIA_TYPE));

  test('413: more than 1 MiB, as sent or after decompression', async () => {
    const large = `{"cart":[1],"x":"${'x'.repeat(1024 * 1024)}"}`;
    await rejects(raw('/cart', large), TOO_LARGE);
    await rejects(raw('/cart', gzipSync(large), { 'content-encoding': 'gzip' }), TOO_LARGE);
    const good = gzipSync('{"cart":[1]}');
    expect(await send(raw('/cart', good, { 'content-encoding': 'gzip' }))).toMatchObject({
      status: 200,
    });
  });

  test.each([
    ['required fields are missing', 'PUT', '/webhooks/1', {}],
    ['an unknown topic', 'POST', '/webhooks', { ...HOOK, topic: 'parcel' }],
    ['an unknown trigger', 'POST', '/webhooks', { ...HOOK, trigger: 'return' }],
    ['null for a required field', 'POST', '/webhooks', { ...HOOK, topic: null }],
    ['an unknown status', 'POST', '/webhooks', { ...HOOK, status: 'paused' }],
    ['a blank url', 'POST', '/webhooks', { ...HOOK, url: ' ' }],
    ['no items', 'POST', ASSESS, { items: [] }],
    ['31 items', 'POST', ASSESS, { items: Array(31).fill({ line_item_id: 1 }) }],
    ['an id as a text', 'POST', ASSESS, itemWith({ line_item_id: '1' })],
    ['an image of 2049 characters', 'POST', ASSESS, itemWith({ images: ['x'.repeat(2049)] })],
    ['101 images', 'POST', ASSESS, itemWith({ images: Array(101).fill('x') })],
    ['a note of 65536 characters', 'POST', ASSESS, itemWith({ note: 'x'.repeat(65_536) })],
    [
      'a processor of 101 characters',
      'POST',
      ASSESS,
      itemWith({ return_processor: 'x'.repeat(101) }),
    ],
    ['a date without time', 'POST', ASSESS, itemWith({ inspected_at: '2026-11-20' })],
    [
      'a day that does not exist',
      'POST',
      ASSESS,
      itemWith({ inspected_at: '2026-02-30T00:00:00Z' }),
    ],
    ['an unknown outcome', 'POST', ASSESS, itemWith({ disposition_outcome: 'sold' })],
    ['a line item that does not exist', 'POST', ASSESS, itemWith({ line_item_id: MISSING_ID })],
    ['the same line twice', 'POST', ASSESS, { items: [{ line_item_id: 1 }, { line_item_id: 1 }] }],
    ['no name', 'PUT', '/destinations/1', {}],
    ['a name of 192 characters', 'PUT', '/destinations/1', { name: 'n'.repeat(192) }],
    ['an unknown type', 'PUT', '/destinations/1', { name: 'North', type: 'shop' }],
    [
      'a country code of three letters',
      'PUT',
      '/destinations/1',
      { name: 'N', address: { country_code: 'GBR' } },
    ],
    ['an unknown category', 'POST', FRAUD, { category: 'rude' }],
    ['other with a blank comment', 'POST', FRAUD, { category: 'other', comment: '  ' }],
    ['a comment of 513 characters', 'POST', FRAUD, { comment: 'c'.repeat(513) }],
    ['a NUL', 'POST', FRAUD, { comment: 'a\u0000b' }],
    ['half a surrogate pair', 'POST', FRAUD, { comment: 'a\ud800' }],
    ['a list among the details', 'POST', PROCESS, { note: ['x'] }],
    [
      '51 details',
      'POST',
      PROCESS,
      Object.fromEntries(Array.from({ length: 51 }, (_, at) => [at, 1])),
    ],
    ['details of 17 KiB', 'POST', PROCESS, { note: 'x'.repeat(17 * 1024) }],
    ['an empty cart', 'POST', '/cart', { cart: [] }],
    ['501 entries', 'POST', '/cart', { cart: Array(501).fill(1) }],
    ['a variant id above 2^53 - 1', 'POST', '/cart', { cart: [2 ** 53] }],
    ['invalid Base64', 'POST', '/cart', { cart: [1], shopify: 'not base64!' }],
  ])('422: %s (%s %s)', async (_, method, path, json) => rejects({ method, path, json }, INVALID));

  test('422: a missing body where one is required', async () => {
    await rejects({ method: 'POST', path: '/cart' }, INVALID);
  });

  test.each([
    '',
    'return_id=',
    'return_id=1&return_id=1',
    'return_id=1&order_id=1',
    'return_id=1&currency_type=both',
  ])('422: the query %j', async (query) =>
    rejects({ path: `/warehouse/return/details?${query}` }, INVALID),
  );

  test('404: ids that do not exist, and ids of another shop', async () => {
    const malformed = ['0', '01', '-1', '1.0', 'abc', '9007199254740992', '%2B1'];
    for (const operation of OPERATIONS.filter(({ id }) => OWN_404[id])) {
      const theirs = await foreignIdOf(journey, operation);
      const body = OWN_404[operation.id];
      for (const id of [MISSING_ID, theirs, ...malformed]) {
        await rejects(requestOf(operation, id), { status: 404, body, code: 'NOT_FOUND' });
      }
    }
  });

  test('422 FAILED_TO_CREATE_WEBHOOK: a forbidden address', async () => {
    const urls = ['ftp://example.com/', 'https://localhost/', 'http://10.0.0.1/', 'x'];
    const more = ['https://u:p@a.b/', 'https://a.example.com/#x', 'http://hooks.example.com/'];
    for (const url of [...urls, ...more]) {
      const json = { ...HOOK, url };
      await rejects({ path: '/webhooks', json }, WEBHOOK_REJECTED);
      await rejects({ method: 'PUT', path: `/webhooks/${MISSING_ID}`, json }, WEBHOOK_REJECTED);
    }
  });

  test('422 FAILED_TO_CREATE_WEBHOOK: a sixth active webhook for a host', async () => {
    const json = { ...HOOK, url: `https://hooks-of-${segment || 'none'}.example.com/` };
    const ids: number[] = [];
    for (let nth = 0; nth < 5; nth += 1) {
      const { body } = await send({ path: '/webhooks', json });
      ids.push(Object(body).id);
    }
    await rejects({ path: '/webhooks', json }, WEBHOOK_REJECTED);
    for (const id of ids) await send({ method: 'DELETE', path: `/webhooks/${id}` });
  });

  test('409: a second fraud report', async () => {
    const { id } = firstOf(journey.stack.shop, 'fraud_reported');
    const path = `/returns/${id}/fraud-report`;
    const body = { errors: { message: text } };
    await rejects({ method: 'POST', path }, { status: 409, body, code: 'FRAUD_REPORT_EXISTS' });
  });

  test.each([
    ['flagged', 'UNPROCESSABLE_FLAGGED_RETURN'],
    ['flagged_instant_refund', 'UNPROCESSABLE_FLAGGED_RETURN'],
    ['closed', 'UNPROCESSABLE_RETURN'],
    ['cancelled', 'UNPROCESSABLE_RETURN'],
    ['expired', 'UNPROCESSABLE_RETURN'],
  ])('process rejects a return that is %s inside a 200', async (fixture, code) => {
    const { id } = firstOf(journey.stack.shop, fixture);
    const answer = await send({ method: 'POST', path: `/warehouse/return/${id}/process` });
    expect(answer).toMatchObject({ status: 200, headers: { 'content-type': 'application/json' } });
    expect(answer.body).toEqual({ errors: { message: text, code } });
    expectCommonHeaders(answer, version);
  });

  test('429: the sixth request in a minute of the key with a limit of five', async () => {
    const { limited = '' } = journey.stack.shop.api_keys;
    const path = `/warehouse/return/details?return_id=${firstOf(journey.stack.shop, 'open').id}`;
    const sixth = await untilLimited(async () => {
      await journey.stack.control('POST', '/limits/reset');
      for (let nth = 0; nth < 5; nth += 1) {
        expect((await send({ path, key: limited })).status).toBe(200);
      }
      return send({ path, key: limited });
    });
    expectError(sixth, version, RATE_LIMITED);
  });
});
