import { describe, expect, test } from '@jest/globals';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { OWN_404, requestOf } from '../kit/journeys/expected-errors.ts';
import { callIn, firstOf, journeyForTests } from '../kit/journeys/journey.ts';
import type { StackShop } from '../kit/stack.ts';

/** The reads that are no list, although their path names no object. */
const NO_LISTS: readonly string[] = ['getReturnDetails', 'getEligibility', 'getPolicy'];
/** The reads that name no object: they show only what belongs to the shop of the credential. */
const LISTS = OPERATIONS.filter(
  ({ method, path, id }) => method === 'GET' && !path.includes('{') && !NO_LISTS.includes(id),
);

const journey = journeyForTests();

const keyOf = (shop: StackShop) => shop.api_keys.all ?? '';

async function read(shop: StackShop, path: string, query: Readonly<Record<string, string>> = {}) {
  const search = new URLSearchParams(query).toString();
  const sent = { path: `/api/2026-10${path}?${search}`, key: keyOf(shop) };
  const { status, body } = await journey.send(sent);
  return { status, body: Object(body) };
}

interface Row {
  readonly id: number;
  /** Instead of the id in the list of expected goods. */
  readonly return_id?: number;
  readonly order_name?: string;
}

/** The id of an object of a list. */
async function objectOf(list: string, shop: StackShop): Promise<number | undefined> {
  if (list === 'listReturns' || list === 'listExpected') return firstOf(shop, 'open').id;
  if (list === 'listWebhooks') return shop.fixtures.webhooks[0]?.id;
  if (list === 'listDestinations') return shop.fixtures.destinations.linked;
  const filter = { returnId: 987_654_321n };
  const call = { ...callIn(shop), idempotencyKey: 'in the list', filter };
  return Number((await journey.services.webhooks.startReplay(call)).replay?.id);
}

/** The rows of all pages. */
async function rowsOf(
  shop: StackShop,
  path: string,
  query: Readonly<Record<string, string>> = {},
): Promise<Row[]> {
  const rows: Row[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { status, body } = await read(shop, path, { ...query, ...(cursor && { cursor }) });
    expect(status).toBe(200);
    const list: unknown = Array.isArray(body) ? body : Object.values(body).find(Array.isArray);
    rows.push(...(list as Row[]));
    cursor = body.next_cursor ?? null;
  }
  return rows;
}

test('a delivery of the other shop does not exist, under its own webhook and under one of ours', async () => {
  const { shop, otherShop } = journey.stack;
  const { deliveries } = await journey.services.webhooks.listDeliveries(callIn(otherShop));
  const [theirs] = deliveries;
  expect(theirs?.id).toMatch(/^msg_/);
  const naming = OPERATIONS.filter(({ path }) => path.includes('{delivery_id}'));
  expect(naming.length).toBeGreaterThan(0);
  for (const operation of naming) {
    for (const webhook of [shop.fixtures.webhooks[0]?.id ?? 0, Number(theirs?.subscriptionId)]) {
      const { path, ...sent } = requestOf(operation, webhook, theirs?.id);
      const { status, body } = await journey.send({ ...sent, path: `/api/2026-10${path}` });
      expect({ status, body }).toEqual({ status: 404, body: OWN_404[operation.id] });
    }
  }
});

test('there are five lists', () => {
  expect(LISTS.map(({ id }) => id).toSorted()).toEqual([
    ...['listDestinations', 'listExpected', 'listReplays', 'listReturns', 'listWebhooks'],
  ]);
});

describe.each(LISTS.map(({ id, path }) => [id, path] as const))('%s', (id, path) => {
  const all: Record<string, string> = id === 'listReturns' ? { archived: 'include' } : {};

  test('shows each shop its own objects, and none of the other', async () => {
    const { shop, otherShop } = journey.stack;
    const theirId = await objectOf(id, otherShop);
    await objectOf(id, shop);
    const [ours, theirs] = await Promise.all([
      rowsOf(shop, path, all),
      rowsOf(otherShop, path, all),
    ]);
    const ids = (rows: readonly Row[]) => rows.map((row) => row.id ?? row.return_id);
    expect(ids(theirs)).toContain(theirId);
    expect(ours.length).toBeGreaterThan(0);
    expect(ids(ours).filter((one) => ids(theirs).includes(one))).toEqual([]);
  });
});

describe('the list of returns', () => {
  const PATH = '/warehouse/returns';

  test('has every return of the shop', async () => {
    const { shop } = journey.stack;
    const listed = (await rowsOf(shop, PATH, { archived: 'include' })).map(({ id }) => id);
    const made = Object.values(shop.fixtures.returns).flat();
    expect(made.map(({ id }) => id).filter((id) => !listed.includes(id))).toEqual([]);
  });

  test('finds nothing by what belongs to the other shop', async () => {
    const { shop, otherShop } = journey.stack;
    const theirs = firstOf(otherShop, 'open');
    const returnIds = [BigInt(theirs.id)];
    const { returns } = await journey.services.returns.getReturns({
      ...callIn(otherShop),
      returnIds,
    });
    const [one] = returns;
    const texts = [
      one?.customer?.email,
      one?.labels[0]?.trackingNumber,
      `${theirs.order_name} of nobody`,
    ];
    const ownNames = (await rowsOf(shop, PATH, { archived: 'include' })).map(
      ({ order_name }) => order_name,
    );
    // Both shops may have orders with one name.
    if (!ownNames.includes(theirs.order_name)) texts.push(theirs.order_name);
    const filters = [
      ...texts.flatMap((query) => (query ? [{ query }] : [])),
      { destination_id: String(otherShop.fixtures.destinations.linked) },
    ];
    expect(filters.length).toBeGreaterThan(3);
    for (const filter of filters) {
      const everything = { ...filter, archived: 'include' };
      // The same filter finds their return for themselves.
      if (filter !== filters[2]) {
        expect((await rowsOf(otherShop, PATH, everything)).length).toBeGreaterThan(0);
      }
      expect(await rowsOf(shop, PATH, everything)).toEqual([]);
    }
  });

  test("rejects another shop's cursor", async () => {
    const { shop, otherShop } = journey.stack;
    const first = await read(otherShop, PATH, { limit: '2' });
    const cursor: string = first.body.next_cursor;
    expect(cursor).toMatch(/./);
    const { status, body } = await read(shop, PATH, { limit: '100', cursor });
    expect([status, body.message]).toEqual([
      422,
      expect.stringContaining('cursor belongs to a list with other filters'),
    ]);
  });
});
