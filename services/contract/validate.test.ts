import { describe, expect, test } from '@jest/globals';
import { OPERATIONS } from './operations.ts';
import { ACCEPTED, item, REFUSED } from './testing/bodies.ts';
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

  test('may be absent only for a fraud report and for process', () => {
    const optional = OPERATIONS.filter(
      ({ id, body }) => body && validateBody(id, '2026-07', undefined).ok,
    );
    expect(optional.map(({ id }) => id)).toEqual([
      'testWebhook',
      'rotateWebhookSecret',
      'createFraudReport',
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
