import { describe, expect, test } from '@jest/globals';
import { ignoredFields, ignoredParameters, mistypedParameter, PARAMETERS } from './ignored.ts';
import { parametersOf } from './openapi/parameters.ts';
import { OPERATIONS } from './operations.ts';
import { ACCEPTED } from './testing/bodies.ts';

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
