import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { SCOPES } from '../../services/contract/scopes.ts';
import { requestOf } from '../kit/journeys/expected-errors.ts';
import { callIn, firstOf, type Journey, startJourney } from '../kit/journeys/journey.ts';

let journey: Journey;
beforeAll(async () => {
  journey = await startJourney();
}, 120_000);
afterAll(() => journey?.stop(), 60_000);

const SECONDS = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/;

const post = (path: string, json?: unknown) =>
  journey.send({
    method: 'POST',
    path: `/api/2026-10${path}`,
    ...(json !== undefined && { json }),
  });
const put = (path: string, json: unknown) =>
  journey.send({ method: 'PUT', path: `/api/2026-10${path}`, json });
const detailsOf = async (id: number) =>
  (await journey.send({ path: `/api/2026-10/warehouse/return/details?return_id=${id}` }))
    .body as Readonly<Record<string, unknown>>;

describe('assess dispositions', () => {
  test('returns the items in the order of the request with UTC times, and the details show them', async () => {
    const ref = await journey.stack.fixture('open');
    const [first = 0, second = 0] = ref.line_item_ids;
    const items = [
      {
        line_item_id: second,
        disposition_outcome: 'donate',
        return_processor: 'warehouse@example.com',
        note: '  kept as sent \u{1f4e6} ',
        inspected_at: '2026-11-20t10:30:00.75+02:00',
        images: ['https://images.example.com/1.png'],
        unknown: 1,
      },
      { line_item_id: first, disposition_outcome: null, note: null },
    ];
    const answer = await post('/dispositioning/assess', { items });
    expect(answer.status).toBe(200);
    const assessed = {
      disposition_outcome: 'donate',
      return_processor: 'warehouse@example.com',
      note: '  kept as sent \u{1f4e6} ',
      inspected_at: '2026-11-20T08:30:00+00:00',
    };
    const standard = {
      disposition_outcome: 'back_to_stock',
      return_processor: null,
      note: null,
      inspected_at: expect.stringMatching(SECONDS),
    };
    expect(answer.body).toEqual([
      { line_item_id: second, ...assessed },
      { line_item_id: first, ...standard },
    ]);
    const { line_items } = await detailsOf(ref.id);
    expect(line_items).toMatchObject([
      { line_item_id: first, disposition: standard, condition: null },
      {
        line_item_id: second,
        disposition: assessed,
        condition: { condition_category: null, images: ['https://images.example.com/1.png'] },
      },
    ]);
  });

  test('images are listed after those of the grading, and a later assessment replaces an earlier one', async () => {
    const { id, line_item_ids } = await journey.stack.fixture('graded');
    const item = { line_item_id: line_item_ids[0], images: ['https://images.example.com/2.png'] };
    await post('/dispositioning/assess', { items: [{ ...item, note: 'first' }] });
    await post('/dispositioning/assess', {
      items: [{ ...item, disposition_outcome: 'recycle', note: 'second' }],
    });
    const { line_items } = await detailsOf(id);
    expect(line_items).toMatchObject([
      {
        disposition: { disposition_outcome: 'recycle', note: 'second' },
        condition: { images: item.images, condition_category: { grade: 'b' } },
      },
      { disposition: null },
    ]);
  });

  test('records all items or none', async () => {
    const { id, line_item_ids } = await journey.stack.fixture('open');
    const theirs = firstOf(journey.stack.otherShop, 'open').line_item_ids[0];
    const items = [{ line_item_id: line_item_ids[0] }, { line_item_id: theirs }];
    expect((await post('/dispositioning/assess', { items })).status).toBe(422);
    expect(await detailsOf(id)).toMatchObject({ line_items: [{ disposition: null }, {}] });
  });

  test('accepts the largest valid request: 30 notes of 65,535 characters, each escaped', async () => {
    // A character of two UTF-16 units is twelve bytes in the escaped form.
    const note = '\\ud83d\\udce6'.repeat(65_535);
    const lines = journey.stack.shop.fixtures.line_items.slice(0, 30);
    const items = lines.map((id) => `{"line_item_id":${id},"note":"${note}"}`);
    const answer = await journey.send({
      path: '/api/2026-10/dispositioning/assess',
      raw: `{"items":[${items.join(',')}]}`,
      headers: { 'content-type': 'application/json' },
    });
    expect(answer.status).toBe(200);
    const body = answer.body as { line_item_id: number; note: string }[];
    expect(body.map(({ line_item_id }) => line_item_id)).toEqual(lines);
    expect(body.every((one) => one.note === '\u{1f4e6}'.repeat(65_535))).toBe(true);
  }, 60_000);
});

describe('update destination', () => {
  interface Destination {
    readonly id: number;
    readonly address: Readonly<Record<string, string>>;
  }
  const fresh = () =>
    journey.stack.control<Destination>(
      'POST',
      `/fixtures/destination?shop=${journey.stack.shop.id}`,
    );

  test('keeps the fields that are not in the request', async () => {
    const before = await fresh();
    const renamed = await put(`/destinations/${before.id}`, { name: 'Renamed' });
    expect(renamed).toMatchObject({ status: 200 });
    expect(renamed.body).toEqual({ ...before, name: 'Renamed' });
    const nulls = { name: 'Again', type: null, enabled: null, address: null };
    expect((await put(`/destinations/${before.id}`, nulls)).body).toEqual({
      ...before,
      name: 'Again',
    });
  });

  test('a destination that was read can be sent back, also without a country', async () => {
    const { id } = await fresh();
    const address = { city: 'Leeds' };
    const { body: changed } = await put(`/destinations/${id}`, { name: 'Depot', address });
    expect(changed).toMatchObject({ address: { city: 'Leeds', country: '', country_code: '' } });
    const { body: read } = await journey.send({ path: `/api/2026-10/destinations/${id}` });
    expect(read).toEqual(changed);
    expect(await put(`/destinations/${id}`, Object(read))).toMatchObject({
      status: 200,
      body: read,
    });
  });

  test('an address replaces the whole address, and its country is derived from the code', async () => {
    const { id } = await fresh();
    const address = { address1: 'Hafenstr. 1', country_code: 'de', phone: '+49 30 1' };
    const { body } = await put(`/destinations/${id}`, {
      name: ' x ',
      type: 'donate',
      enabled: false,
      address,
    });
    expect(body).toEqual({
      id,
      name: ' x ',
      type: 'donate',
      enabled: false,
      provider_location_id: null,
      address: {
        name: '',
        company: '',
        address1: 'Hafenstr. 1',
        address2: '',
        city: '',
        state: '',
        zip: '',
        country: 'Germany',
        country_code: 'DE',
      },
    });
  });

  test('shows the linked location', async () => {
    const { linked } = journey.stack.shop.fixtures.destinations;
    expect((await put(`/destinations/${linked}`, { name: 'Main warehouse' })).body).toMatchObject({
      provider_location_id: 1_000_000_000_001,
    });
  });
});

describe('fraud report and cart', () => {
  test.each([
    [undefined, null, null],
    [{}, null, null],
    [{ category: null, comment: null }, null, null],
    [{ category: 'item-is-worn', comment: ' seen \u{1f440} ' }, 'item-is-worn', ' seen \u{1f440} '],
    [{ category: 'other', comment: '\u{1f440}'.repeat(512) }, 'other', '\u{1f440}'.repeat(512)],
  ])('a report of %j is stored', async (json, category, comment) => {
    const { id } = await journey.stack.fixture('closed');
    const answer = await post(`/returns/${id}/fraud-report`, json);
    expect(answer.status).toBe(201);
    expect(answer.body).toEqual({
      id: expect.any(Number),
      return_id: id,
      category,
      comment,
      created_at: expect.stringMatching(SECONDS),
    });
  });

  test.each([
    [{ cart: [1, { variant_id: 2, quantity: 3, nested: { a: [null, 1.5] } }, 9007199254740991] }],
    [{ cart: [1], shopify: 'eyJhIjoxfQ==' }],
    [{ cart: [1], shopify: 'eyJhIjoxfQ' }],
    [{ cart: [1], shopify: null }],
  ])('a cart is returned as it was sent: %j', async (json) => {
    const answer = await post('/cart', { ...json, ignored: true });
    expect(answer.status).toBe(200);
    const token = expect.stringMatching(/^[\w-]{43}$/);
    expect(answer.body).toEqual({ token, data: json });
    const path = `/api/2026-10/cart/${(answer.body as { token: string }).token}`;
    expect(await journey.send({ path })).toMatchObject({ status: 200, text: answer.text });
    const { cart } = await journey.services.carts.getCart({
      ...callIn(journey.stack.shop),
      token: (answer.body as { token: string }).token,
    });
    expect(cart?.entries).toHaveLength(json.cart.length);
  });
});

describe('valid credentials', () => {
  test.each(SCOPES)('the key %s allows the operations of its scope', async (scope) => {
    const key = journey.stack.shop.api_keys[scope] ?? '';
    for (const operation of OPERATIONS.filter((one) => one.scope === scope)) {
      const sent = requestOf(operation);
      const { status } = await journey.send({ ...sent, path: `/api/2026-10${sent.path}`, key });
      expect([200, 201, 404, 422]).toContain(status);
    }
  });

  test('a partner token manages webhooks from creation to deletion in its own shop', async () => {
    const token = journey.stack.shop.partner_tokens.developer_tools;
    const partner = { key: null, headers: { authorization: `Bearer ${token}` } };
    const json = { topic: 'label', trigger: 'return.closed', url: 'https://hooks.example.com/a' };
    const path = '/api/2026-10/webhooks';
    const created = await journey.send({ ...partner, path, json });
    expect(created.status).toBe(201);
    const { id } = created.body as { id: number };
    expect(created.body).toEqual({
      id,
      ...json,
      status: 'active',
      secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
      delivers: false,
      payload_version: journey.stack.shop.payload_version,
      warnings: [{ code: 'NEVER_DELIVERS', message: expect.any(String) }],
    });
    const change = { ...json, topic: 'return', status: 'inactive' };
    const one = { ...partner, path: `${path}/${id}` };
    expect(await journey.send({ ...one, method: 'PUT', json: change })).toMatchObject({
      status: 204,
      text: '',
    });
    // Without a status in the request the status stays.
    await journey.send({ ...one, method: 'PUT', json: { ...json, topic: 'return' } });
    const listed = (await journey.send({ ...partner, path })).body as { id: number }[];
    const shown = { id, ...change, delivers: true, health: 'inactive', inactive_reason: null };
    expect(listed.find((webhook) => webhook.id === id)).toMatchObject(shown);
    expect((await journey.send(one)).body).toEqual(listed.find((webhook) => webhook.id === id));
    expect(listed).toEqual(listed.toSorted((a, b) => a.id - b.id));
    expect(await journey.send({ ...one, method: 'DELETE' })).toMatchObject({
      status: 204,
      text: '',
    });
    expect((await journey.send({ ...one, method: 'DELETE' })).status).toBe(404);
  });

  test('a bearer token allows only webhooks', async () => {
    const token = journey.stack.shop.partner_tokens.developer_tools;
    const headers = { authorization: `Bearer ${token}` };
    const sent = { path: '/api/2026-10/cart', json: { cart: [1] }, headers, key: null };
    expect((await journey.send(sent)).status).toBe(401);
  });
});
