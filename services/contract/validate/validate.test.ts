import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { propertyNames } from '../../../test/kit/arbitrary-request.ts';
import { documentedOperations } from '../../../test/kit/openapi.ts';
import { openapiDocument } from '../openapi/document.ts';
import { parametersOf } from '../openapi/parameters.ts';
import { OPERATIONS } from '../operations.ts';
import { ACCEPTED, item, REFUSED } from '../testing/bodies.ts';
import { ignoredFields, ignoredParameters, mistypedParameter, PARAMETERS } from './ignored.ts';
import { nearest } from './nearest.ts';
import { validateBody } from './validate.ts';

describe('a body', () => {
  test.each(ACCEPTED)('%s accepts %s', (operation, _name, body) => {
    expect(validateBody(operation, '2026-10', body)).toMatchObject({ ok: true });
  });

  test.each(REFUSED)('%s rejects %j: %s', (operation, body, message) => {
    const field = message.split(/ (?:must|is)/)[0];
    expect(validateBody(operation, '2026-10', body)).toMatchObject({
      ok: false,
      message,
      fields: expect.arrayContaining([{ field, message }]),
    });
  });

  test('gets all its errors, in the order of the fields', () => {
    expect(validateBody('updateDestination', 'unstable', { type: 'x', enabled: 1 })).toMatchObject({
      message: 'name is required.',
      fields: [{ field: 'name' }, { field: 'type' }, { field: 'enabled' }],
    });
  });

  test('may be absent only where all of it is optional', () => {
    const optional = OPERATIONS.filter(
      ({ id, body }) => body && validateBody(id, '2026-07', undefined).ok,
    );
    expect(optional.map(({ id }) => id)).toEqual([
      'testWebhook',
      'rotateWebhookSecret',
      'createFraudReport',
      'cancelReturn',
      'processReturn',
    ]);
  });

  test('must be an object', () => {
    for (const body of [null, [], 'x', 7]) {
      expect(validateBody('processReturn', '2026-07', body)).toMatchObject({
        message: 'body must be an object.',
      });
    }
  });

  test('a number that JSON writes as 1.0 is an integer', () => {
    const body: unknown = JSON.parse('{"items": [{"line_item_id": 1.0}]}');
    expect(validateBody('assessDispositions', '2026-07', body)).toMatchObject({ ok: true });
  });

  test('times become instants', () => {
    const body = item({ inspected_at: '2026-07-01t12:00:00.5+02:00' });
    expect(validateBody('assessDispositions', '2026-07', body)).toMatchObject({
      value: { items: [{ inspected_at: new Date('2026-07-01T10:00:00.500Z') }] },
    });
  });

  test('texts are kept as sent', () => {
    expect(validateBody('updateDestination', '2026-07', { name: ' Depot ' })).toMatchObject({
      value: { name: ' Depot ' },
    });
  });

  test('cart entries and process details keep every key', () => {
    const entry: unknown = JSON.parse(
      '{"variant_id": 1, "__proto__": 2, "constructor": {"a": []}}',
    );
    const cart = validateBody('createCart', '2026-07', { cart: [entry] });
    expect(JSON.stringify(cart)).toContain('"__proto__":2,"constructor":{"a":[]}');
    const details = validateBody('processReturn', '2026-07', JSON.parse('{"__proto__": "x"}'));
    expect(JSON.stringify(details)).toContain('"__proto__":"x"');
  });
});

describe('ignored fields', () => {
  test.each([
    ['previewReplay', { webhook: 7 }, ['webhook', '; did you mean webhook_id?']],
    ['rotateWebhookSecret', { overlap: 0 }, ['overlap', '; did you mean overlap_hours?']],
    ['rotateWebhookSecret', { hours: 0 }, ['hours', '; did you mean overlap_hours?']],
    ['startReplay', { state: 'exhausted' }, ['state', '; did you mean states?']],
    ['startReplay', { status: 'exhausted' }, ['status', '; did you mean states?']],
    ['createWebhook', { callback_url: 'x' }, ['callback_url', '; did you mean url?']],
    ['createWebhook', { event: 'x' }, ['event', '; did you mean trigger?']],
    ['testWebhook', { triger: 'x' }, ['triger', '; did you mean trigger?']],
    ['testWebhook', { topic: 'return' }, ['topic', '']],
    ['updateWebhook', { colour: 'red' }, ['colour', '']],
    [
      'assessDispositions',
      { items: [{ line_item_id: 1 }, { notes: 'x' }] },
      ['items[1].notes', '; did you mean items[1].note?'],
    ],
    [
      'updateDestination',
      { address: { zip_code: '1' } },
      ['address.zip_code', '; did you mean address.zip?'],
    ],
    ['createWebhook', { 'url\r\nä': 1 }, ['url%0D%0A%C3%A4', '; did you mean url?']],
  ] as const)('of %s %j are named', (operation, body, [name, question]) => {
    const text = `${name} is no field of this operation and was ignored${question}`;
    expect(ignoredFields(operation, body)).toEqual([text]);
  });

  test('are at most three', () => {
    expect(ignoredFields('createWebhook', { a: 1, b: 1, c: 1, d: 1 })).toHaveLength(3);
  });

  test.each([
    ['processReturn', { anything: 1 }],
    ['createCart', { cart: [{ variant_id: 1, note: 'x' }] }],
    ['createWebhook', undefined],
    ['createWebhook', { topic: { x: 1 }, __proto__: { y: 1 } }],
  ] as const)('of %s %j do not exist', (operation, body) => {
    expect(ignoredFields(operation, body)).toEqual([]);
  });

  test('of any body are found without an error', () => {
    for (const [operation, , body] of ACCEPTED) {
      expect(ignoredFields(operation, body).length).toBeLessThanOrEqual(3);
    }
  });
});

describe('ignored parameters', () => {
  test.each([
    ['listReturns', 'updated_since=x', 'updated_since', '; did you mean updated_from?'],
    ['listReturns', 'stat=open&stat=closed', 'stat', '; did you mean state?'],
    ['listWebhooks', 'status=active', 'status', ''],
    ['listDeliveries', 'states=exhausted', 'states', '; did you mean state?'],
    ['listDeliveries', 'status=exhausted', 'status', '; did you mean state?'],
    ['listDeliveries', 'since=x', 'since', '; did you mean from?'],
    ['listReplays', 'webhook=7&limit=2', 'webhook', '; did you mean webhook_id?'],
  ] as const)('of %s?%s are named', (operation, query, name, question) => {
    const text = `${name} is no parameter of this operation and was ignored${question}`;
    expect(ignoredParameters(operation, new URLSearchParams(query))).toEqual([text]);
  });

  test.each(['state[]=open', 'state[0]=open&label_status[]=error'])('%s has none', (query) => {
    expect(ignoredParameters('listReturns', new URLSearchParams(query))).toEqual([]);
  });

  test.each([
    ['listReturns', 'State=closed', 'state'],
    ['listReturns', 'states=closed', 'state'],
    ['listReturns', 'status=closed', 'state'],
    ['listReturns', 'limit=1&labelStatus=error', 'label_status'],
    ['listReturns', 'updatedFrom=x', 'updated_from'],
    ['listReturns', 'queries=x', 'query'],
    ['listReturns', 'sort[]=x', 'sort'],
    ['listDeliveries', 'state[]=exhausted', 'state'],
    ['listDeliveries', 'triger=x', 'trigger'],
    ['listReplays', 'webhookIds=7', 'webhook_id'],
    ['listReturns', 'stage=closed', 'state'],
  ] as const)('of %s?%s look like a known one', (operation, query, meant) => {
    expect(mistypedParameter(operation, new URLSearchParams(query))).toMatchObject({ meant });
  });

  test.each([
    ['listReturns', 'colour=red&form=x&updated_since=x&_=1&page=2&include=lines'],
    ['listReturns', 'state[]=closed&state=open'],
    ['listDeliveries', 'form=x&since=x&type=x'],
    ['listWebhooks', 'status=active'],
    ['getReturnDetails', 'returnId=7'],
  ] as const)('of %s?%s look like none', (operation, query) => {
    expect(mistypedParameter(operation, new URLSearchParams(query))).toBeUndefined();
  });

  test('are those that the OpenAPI document does not have', () => {
    for (const operation of OPERATIONS) {
      const documented = parametersOf(operation).flatMap((parameter) =>
        Reflect.get(parameter, 'in') === 'query' ? [Reflect.get(parameter, 'name')] : [],
      );
      expect([...(PARAMETERS[operation.id] ?? [])].sort()).toEqual(documented.sort());
    }
  });
});

const REPLAY = ['kind', 'webhook_id', 'url', 'topic', 'trigger', 'states', 'return_id', 'from'];
const WEBHOOK = ['topic', 'trigger', 'url', 'status'];
const RETURNS = ['state', 'label_status', 'archived', 'updated_from', 'updated_to', 'limit'];

describe('the nearest name', () => {
  test.each([
    ['webhook', REPLAY, 'webhook_id'],
    ['webhookId', REPLAY, 'webhook_id'],
    ['triger', REPLAY, 'trigger'],
    ['stat', RETURNS, 'state'],
    ['status', RETURNS, 'state'],
    ['updated_since', RETURNS, 'updated_from'],
    ['overlap', ['overlap_hours'], 'overlap_hours'],
    ['Limit', RETURNS, 'limit'],
    // All words of one name are in the other.
    ['hours', ['overlap_hours'], 'overlap_hours'],
    ['callback_url', WEBHOOK, 'url'],
    ['webhookUrl', WEBHOOK, 'url'],
    // Names of other APIs.
    ['endpoint', WEBHOOK, 'url'],
    ['eventType', WEBHOOK, 'trigger'],
    ['enabled', WEBHOOK, 'status'],
    ['since', REPLAY, 'from'],
    ['id', REPLAY, 'webhook_id'],
    ['items', ['cart', 'shopify'], 'cart'],
  ])('of %s among %j is %s', (name, known, expected) => {
    expect(nearest(name, known)).toBe(expected);
  });

  test.each(['colour', 'x', '', '1', 'x'.repeat(10_000)])('of %j does not exist', (name) => {
    expect(nearest(name, REPLAY)).toBeUndefined();
  });
});

const document = openapiDocument('unstable');
const names = documentedOperations(document).flatMap(({ body }) => propertyNames(body, document));
const hostileBodies = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(
      null,
      true,
      0,
      1,
      -0,
      1e300,
      Number.POSITIVE_INFINITY,
      '',
      ' ',
      '\0',
      '\ud800',
      'other',
      'return',
    ),
    fc.string({ unit: 'binary' }),
    fc.array(tie('value'), { maxLength: 3 }),
    tie('object'),
  ),
  object: fc.dictionary(fc.oneof(fc.constantFrom(...names), fc.string()), tie('value')),
})).object;

test('no body makes the validator throw, or gets a message of the library', () => {
  const operations = OPERATIONS.filter(({ body }) => body).map(({ id }) => id);
  const wording = /^.+ (must|is required).*\.$/s;
  fc.assert(
    fc.property(fc.constantFrom(...operations), hostileBodies, (operation, body) => {
      const result = validateBody(operation, 'unstable', body);
      if (!result.ok) expect(result.message).toMatch(wording);
    }),
    { numRuns: 2000 },
  );
});
