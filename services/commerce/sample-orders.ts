import type pg from 'pg';
import { z } from 'zod';
import type { RecordSampleOrdersRequest } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { onlyRow } from '../platform/postgres/only-row.ts';
import { inTransaction, type Queryable } from '../platform/postgres/postgres.ts';
import { invalidField, stateForbids } from '../platform/values/errors.ts';
import { callerShape, parseInput } from '../platform/values/input.ts';
import { formatAmount } from '../platform/values/money.ts';
import { jsonOf, normalForm } from '../platform/values/text.ts';
import { type AnsweredOrder, foundOrder, problemsOfOrder } from './http/order.ts';
import { orderAnswer } from './http/protocol.ts';
import type { FoundOrder, OrderSelector } from './provider.ts';
import type { Providers } from './providers.ts';

/** Maximum number of orders in one call, and size of one. */
const MAX_ORDERS = 100;
const MAX_ORDER_LENGTH = 262_144;

const input = z.object({
  ...callerShape,
  orders: z
    .array(z.string().max(MAX_ORDER_LENGTH, `must have at most ${MAX_ORDER_LENGTH} characters`))
    .min(1, 'must hold at least one')
    .max(MAX_ORDERS, `must hold at most ${MAX_ORDERS}`),
});

/**
 * Implements the RPC that gives a shop with the embedded provider orders. An order with a known id replaces the earlier
 * one.
 *
 * @throws DomainError INVALID_ARGUMENT; STATE_FORBIDS for a shop that is connected to a provider of its own.
 */
export async function recordSampleOrders(
  { pool, providers }: { readonly pool: pg.Pool; readonly providers: Pick<Providers, 'connected'> },
  request: RecordSampleOrdersRequest,
): Promise<number> {
  const { shopId, orders } = parseInput(input, request);
  if (await providers.connected(pool, shopId)) {
    throw stateForbids('the shop has a commerce provider of its own, which has its orders');
  }
  const parsed = orders.map(parseOrder);
  await inTransaction(pool, async (tx) => {
    for (const order of parsed) await store(tx, shopId, order);
  });
  return parsed.length;
}

function parseOrder(text: string, n: number): AnsweredOrder {
  const { data, error } = orderAnswer.safeParse({ order: jsonOf(text) ?? undefined });
  const [issue] = error?.issues ?? [];
  if (!data?.order) {
    const where = issue?.path.slice(1).join('.') || 'it';
    throw invalidField(`orders[${n}]`, `is no order: ${where}: ${issue?.message ?? 'is invalid'}`);
  }
  const [problem] = problemsOfOrder(data.order);
  if (problem !== undefined) throw invalidField(`orders[${n}]`, `is no order: ${problem}`);
  return data.order;
}

async function store(tx: Queryable, shopId: bigint, order: AnsweredOrder): Promise<void> {
  await tx.query(
    `delete from sample_orders
      where shop_id = $1 and normal_form(name) = normal_form($3) and provider_order_id <> $2`,
    [shopId, order.id, order.name],
  );
  await tx.query(
    `insert into sample_orders (shop_id, provider_order_id, name, body) values ($1, $2, $3, $4)
     on conflict (shop_id, provider_order_id) do update set name = excluded.name, body = excluded.body`,
    [shopId, order.id, order.name, JSON.stringify(order)],
  );
}

/**
 * Finds an order of a shop with the embedded provider: one that was recorded, or else one of the built-in ones, see
 * {@link builtIn}.
 */
export async function findSampleOrder(
  db: Queryable,
  asked: OrderSelector,
): Promise<FoundOrder | undefined> {
  const name = 'name' in asked ? normalForm(asked.name) : null;
  const id = 'id' in asked ? asked.id : null;
  const row = onlyRow(
    await db.query<{ readonly body: string | null; readonly currency: string | null }>({
      name: 'sample-order',
      text: `
select (select currency from settings where shop_id = $1) as currency,
       coalesce(
         (select body::text from sample_orders where shop_id = $1 and provider_order_id = $2),
         (select body::text from sample_orders where shop_id = $1 and normal_form(name) = $3)) as body`,
      values: [asked.shopId, id, name],
    }),
  );
  // `store` wrote this JSON, so it has this type.
  const order: AnsweredOrder | undefined =
    row.body === null
      ? builtIn('name' in asked ? asked.name : asked.id, row.currency ?? undefined)
      : JSON.parse(row.body);
  if (!order) return undefined;
  const { lines, ...found } = foundOrder(order);
  // Refunds of this service are in its own returns, and lower no number here.
  return { ...found, lines: lines.map((line) => ({ ...line, refunds: [] })) };
}

const NAME = /^#?T(\d{1,3})(?:-(\d{1,6}))?$/i;
const FIRST_ID = 900_000_000_000n;
const IDS_OF_A_DAY = 1_000_000n;
const DAY_MS = 86_400_000;

/**
 * The built-in orders, so that a sandbox has orders at once: `#T10` was delivered 10 days ago, and `#T10-7` is another
 * one. Each has two mugs, which may be exchanged for dearer and cheaper ones, a scarf with the tag `final-sale`, and a gift card, and the shopper `shopper@example.com`.
 */
function builtIn(by: string | bigint, currency: string | undefined): AnsweredOrder | undefined {
  const at = typeof by === 'bigint' ? placeOfId(by) : placeOfName(by);
  if (!at || currency === undefined) return undefined;
  const { days, n } = at;
  const id = Number(FIRST_ID + BigInt(days) * IDS_OF_A_DAY + BigInt(n));
  const ago = (more: number) => new Date(Date.now() - (days + more) * DAY_MS).toISOString();
  const both = (minor: bigint) => {
    const amount = formatAmount(minor, currency);
    return { shop: amount, presentment: amount };
  };
  const line = (
    place: number,
    title: string,
    [quantity, total, tax]: [number, bigint, bigint],
  ) => ({
    line_item_id: id * 10 + place,
    title,
    sku: `SAMPLE-${title.toUpperCase().replaceAll(' ', '-')}`,
    product_id: 8_000 + place,
    variant_id: 80_000 + place,
    quantity,
    returnable: quantity,
    paid: { total: both(total), tax: both(tax) },
  });
  const variant = (variant_id: number, title: string, [price, tax]: [bigint, bigint]) => ({
    variant_id,
    sku: `SAMPLE-MUG-${title.toUpperCase()}`,
    title,
    price: formatAmount(price, currency),
    tax: formatAmount(tax, currency),
  });
  return {
    id,
    name: `#T${days}${n === 0 ? '' : `-${n}`}`,
    currency,
    presentment_currency: currency,
    email: 'shopper@example.com',
    postal_code: 'N1 1AA',
    shipping_country: 'GB',
    ordered_at: ago(3),
    fulfilled_at: ago(2),
    delivered_at: ago(0),
    lines: [
      {
        ...line(0, 'Mug', [2, 2_400n, 400n]),
        ...{ kind: 'product', variant_title: 'Blue', tags: [] },
        variants: [variant(80_100, 'Gold', [1_500n, 250n]), variant(80_200, 'White', [900n, 150n])],
      },
      { ...line(1, 'Scarf', [1, 3_000n, 500n]), kind: 'product', tags: ['final-sale'] },
      { ...line(2, 'Gift card', [1, 2_500n, 0n]), kind: 'gift_card', tags: [] },
    ],
  };
}

function placeOfName(name: string) {
  const [, days, n = '0'] = NAME.exec(normalForm(name)) ?? [];
  return days === undefined ? undefined : { days: Number(days), n: Number(n) };
}

function placeOfId(id: bigint) {
  const place = id - FIRST_ID;
  if (place < 0n || place >= 1_000n * IDS_OF_A_DAY) return undefined;
  return { days: Number(place / IDS_OF_A_DAY), n: Number(place % IDS_OF_A_DAY) };
}
