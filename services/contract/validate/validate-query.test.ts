import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { MAX_ID, parseId } from '../../platform/values/ids.ts';
import { DELIVERY_STATES, TRIGGERS } from '../vocabulary.ts';
import { validateQuery } from './validate.ts';

describe('the query of return details', () => {
  const read = (query: string) =>
    validateQuery('getReturnDetails', '2026-10', new URLSearchParams(query));

  test.each([
    ['return_id=7', { case: 'returnId', value: 7n }],
    [`order_id=${MAX_ID}`, { case: 'orderId', value: MAX_ID }],
    ['order_name=%231001', { case: 'orderName', value: '#1001' }],
    ['order_name=+', { case: 'orderName', value: ' ' }],
    ['return_id=7&colour=red&colour=blue', { case: 'returnId', value: 7n }],
    ['provider_order_id=7', { case: 'providerOrderId', value: 7n }],
  ])('%s selects', (query, selector) => {
    expect(read(query)).toEqual({ ok: true, value: { selector, currencyType: undefined } });
  });

  test.each(['shop', 'presentment'])('currency_type=%s', (currencyType) => {
    expect(read(`return_id=7&currency_type=${currencyType}`)).toMatchObject({
      value: { currencyType },
    });
  });

  test.each([
    ['', 'return_id or order_id, order_name or provider_order_id is required.'],
    ['currency_type=shop', 'return_id or order_id, order_name or provider_order_id is required.'],
    ['return_id=', 'return_id must not be empty.'],
    ['return_id=1&order_name=', 'order_name must not be empty; in an address, write # as %23.'],
    ['return_id=1&return_id=1', 'return_id must be given once.'],
    ['return_id=1&order_id=2', 'order_id must not be given together with return_id.'],
    [
      'provider_order_id=1&order_id=2',
      'provider_order_id must not be given together with order_id.',
    ],
    ['return_id=1&currency_type=', 'currency_type must not be empty.'],
    ['return_id=1&currency_type=Shop', 'currency_type must be one of shop, presentment.'],
    ['return_id=1&currency_type=shop&currency_type=shop', 'currency_type must be given once.'],
    ['order_name=a%00', `order_name must not contain NUL or unpaired surrogate characters.`],
    ['return_id=abc&currency_type=x', 'currency_type must be one of shop, presentment.'],
  ])('%j is rejected: %s', (query, message) => {
    expect(read(query)).toMatchObject({ ok: false, notFound: false, message });
  });

  test.each([
    'return_id=abc',
    'return_id=0',
    'return_id=007',
    'order_id=1.0',
    'return_id=+1',
    'return_id=%00',
    'order_id=%00',
    'provider_order_id=%00',
  ])('%s does not exist', (query) => {
    const message = expect.stringMatching(/^\w+_id must be a whole number from 1 to \d+\.$/);
    expect(read(query)).toMatchObject({ ok: false, notFound: true, message });
  });

  test('an order name that is longer than every stored one does not exist', () => {
    const message = 'order_name must be at most 191 characters.';
    const query = `order_name=${'x'.repeat(192)}`;
    expect(read(query)).toMatchObject({ ok: false, notFound: true, message });
  });

  test('other operations read no query', () => {
    expect(validateQuery('listWebhooks', '2026-10', new URLSearchParams('return_id='))).toEqual({
      ok: true,
      value: undefined,
    });
  });
});

describe('the query of a list of returns', () => {
  const read = (query: string) =>
    validateQuery('listReturns', '2026-10', new URLSearchParams(query));
  const none = {
    states: [],
    labelStatuses: [],
    archived: undefined,
    destinationId: undefined,
    query: '',
    createdFrom: undefined,
    createdTo: undefined,
    updatedFrom: undefined,
    updatedTo: undefined,
    sort: '-created_at',
    limit: 50,
    cursor: '',
  };

  test.each([
    ['', {}],
    ['state=open,review,open', { states: ['open', 'review'] }],
    ['state[]=open', { states: ['open'] }],
    ['state%5B%5D=open&state%5B%5D=review', { states: ['open', 'review'] }],
    ['state[0]=open&state[1]=review', { states: ['open', 'review'] }],
    ['state=open&state[]=review,closed', { states: ['open', 'review', 'closed'] }],
    ['label_status[]=error', { labelStatuses: ['error'] }],
    ['sort[]=updated_at&query[]=x&state[x]=open', {}],
    ['label_status=error,failure', { labelStatuses: ['error', 'failure'] }],
    ['archived=only', { archived: 'only' }],
    [`destination_id=${MAX_ID}`, { destinationId: MAX_ID }],
    ['query=%231001', { query: '#1001' }],
    ['sort=updated_at&limit=100&cursor=x', { sort: 'updated_at', limit: 100, cursor: 'x' }],
    ['created_from=2026-07-01T02:00:00%2B02:00', { createdFrom: new Date('2026-07-01Z') }],
    [
      'updated_from=2026-07-01T00:00:00Z&updated_to=2026-07-02T00:00:00Z',
      { updatedFrom: new Date('2026-07-01Z'), updatedTo: new Date('2026-07-02Z') },
    ],
    ['colour=red&colour=blue', {}],
  ])('%j selects', (query, value) => {
    expect(read(query)).toEqual({ ok: true, value: { ...none, ...value } });
  });

  test.each([
    ['state=', 'state must not be empty.'],
    ['state[]=', 'state must not be empty.'],
    [
      'state[]=lost',
      'state must be a list, separated by commas, of open, review, closed, cancelled, expired.',
    ],
    [
      'state=open&state=review',
      'state must be given once, with commas between its values: state=open,closed.',
    ],
    ['limit=1&limit=2', 'limit must be given once.'],
    ['query=', 'query must not be empty; in an address, write # as %23.'],
    ['query=%20%C2%A0', 'query must not be blank.'],
    ['updated_from=2026-02-30T00:00:00Z', 'updated_from must be on a day that exists.'],
    [
      'state=open,lost',
      'state must be a list, separated by commas, of open, review, closed, cancelled, expired.',
    ],
    [
      'label_status=Error',
      'label_status must be a list, separated by commas, of new, pre_transit, in_transit, out_for_delivery, delivered, error, failure.',
    ],
    ['archived=true', 'archived must be one of exclude, include, only.'],
    ['destination_id=x', 'destination_id must be an integer from 1 to 9007199254740991.'],
    [`query=${'x'.repeat(321)}`, 'query must be at most 320 characters.'],
    ['query=a%00', 'query must not contain NUL or unpaired surrogate characters.'],
    ['sort=id', 'sort must be one of -created_at, created_at, -updated_at, updated_at.'],
    [
      'created_from=2026-07-02T00:00:00Z&created_to=2026-07-01T00:00:00Z',
      'created_to must be after created_from.',
    ],
    [
      'updated_from=2026-07-01',
      'updated_from must be an RFC 3339 date-time with a UTC offset, such as 2026-07-01T12:00:00+00:00 (a + is sent as %2B).',
    ],
    ['limit=101', 'limit must be a whole number from 1 to 100.'],
    [`cursor=${'x'.repeat(201)}`, 'cursor must be at most 200 characters.'],
  ])('%j is rejected: %s', (query, message) => {
    expect(read(query)).toMatchObject({ ok: false, message });
  });
});

describe('a path id', () => {
  test('is every integer from 1 to 2^53 - 1', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 1n, max: MAX_ID }), (id) => {
        expect(parseId(id.toString())).toBe(id);
      }),
    );
  });

  test('is undefined beyond', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: MAX_ID + 1n }), (id) => {
        expect(parseId(id.toString())).toBeUndefined();
      }),
    );
  });

  test.each([
    '',
    '0',
    '-1',
    '+1',
    '01',
    '1.0',
    '1e3',
    ' 1',
    '1\n',
    '0x1',
    '١',
    'abc',
    '9007199254740992',
  ])('%j does not exist', (text) => {
    expect(parseId(text)).toBeUndefined();
  });
});

describe('the query of deliveries', () => {
  const read = (query: URLSearchParams) => validateQuery('listDeliveries', '2026-10', query);

  test('selects the first fifty of all when it is empty', () => {
    expect(read(new URLSearchParams())).toEqual({ ok: true, value: { limit: 50, cursor: '' } });
  });

  test('has the parameters of the request, in any order and among unknown ones', () => {
    const time = fc.date({
      min: new Date('2000-01-01'),
      max: new Date('2099-01-01'),
      noInvalidDate: true,
    });
    const given = fc.record(
      {
        state: fc.constantFrom(...DELIVERY_STATES),
        trigger: fc.constantFrom(...TRIGGERS),
        limit: fc.integer({ min: 1, max: 100 }),
        cursor: fc.stringMatching(/^[\w-]{1,200}$/),
        other: fc.string(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(
        given,
        fc.uniqueArray(time, { maxLength: 2, selector: Number }),
        fc.gen(),
        (fields, times, g) => {
          const [from, to] = times.toSorted((one, other) => Number(one) - Number(other));
          const texts = Object.entries({ ...fields, ...(from && { from }), ...(to && { to }) }).map(
            ([name, value]): [string, string] => [
              name,
              value instanceof Date ? value.toISOString() : String(value),
            ],
          );
          const shuffled = g(fc.shuffledSubarray, texts, { minLength: texts.length });
          const { other: _, ...known } = fields;
          expect(read(new URLSearchParams(shuffled))).toEqual({
            ok: true,
            value: { limit: 50, cursor: '', ...known, ...(from && { from }), ...(to && { to }) },
          });
        },
      ),
    );
  });

  test('never throws', () => {
    const names = fc.constantFrom('state', 'trigger', 'from', 'to', 'limit', 'cursor', 'x');
    fc.assert(
      fc.property(fc.array(fc.tuple(names, fc.string())), (pairs) => {
        const result = read(new URLSearchParams(pairs));
        expect(result.ok || 'message' in result).toBe(true);
      }),
    );
  });
});
