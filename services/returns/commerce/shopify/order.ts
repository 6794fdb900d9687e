import { z } from 'zod';
import { type Both, type Currencies, inBoth, minorOf } from '../../../platform/money.ts';
import { CommerceFailure, type FoundLine, type FoundOrder } from '../provider.ts';
import { required } from './answers.ts';
import type { Operation, ShopifyClient, ShopifyShop } from './client.ts';
import { numberOf } from './ids.ts';
import { both, textOf } from './shapes.ts';

/** Number of lines on a page. A query may cost at most 1,000 points, and a line costs about six. */
const PAGE_LINES = 100;
/** Maximum number of pages. Larger orders are rejected. */
const MAX_PAGES = 5;
/** Maximum number of orders in a search. Names are unique, but the search also finds similar ones. */
const MAX_ORDERS = 10;
/** Names that can be searched for. Other characters could be operators of the search. */
const NAME = /^[\p{L}\p{N}#._ -]{1,50}$/u;

export const ORDERS_BY_NAME = {
  name: 'OrdersByName',
  text: `
query OrdersByName($query: String!) {
  orders(first: ${MAX_ORDERS}, query: $query) {
    nodes { id name currencyCode presentmentCurrencyCode }
  }
}`,
  data: z.object({
    orders: z.object({
      nodes: z.array(
        z.object({
          id: z.string(),
          name: z.string(),
          currencyCode: z.string(),
          presentmentCurrencyCode: z.string(),
        }),
      ),
    }),
  }),
} satisfies Operation<z.ZodType>;

export const LINES_OF_ORDER = {
  name: 'LinesOfOrder',
  text: `
query LinesOfOrder($order: ID!, $after: String) {
  order(id: $order) {
    lineItems(first: ${PAGE_LINES}, after: $after) {
      pageInfo { hasNextPage endCursor }
      nodes {
        id
        title
        sku
        quantity
        refundableQuantity
        product { id }
        variant { id }
        discountedUnitPriceAfterAllDiscountsSet {
          presentmentMoney { amount currencyCode }
          shopMoney { amount currencyCode }
        }
      }
    }
  }
}`,
  data: z.object({
    order: z
      .object({
        lineItems: z.object({
          pageInfo: z.object({ hasNextPage: z.boolean(), endCursor: z.string().nullable() }),
          nodes: z.array(
            z.object({
              id: z.string(),
              title: z.string(),
              sku: z.string().nullable(),
              quantity: z.int().min(0),
              refundableQuantity: z.int().min(0),
              product: z.object({ id: z.string() }).nullable(),
              variant: z.object({ id: z.string() }).nullable(),
              discountedUnitPriceAfterAllDiscountsSet: both,
            }),
          ),
        }),
      })
      .nullable(),
  }),
} satisfies Operation<z.ZodType>;

type ReadOrder = NonNullable<z.infer<typeof LINES_OF_ORDER.data>['order']>;
type ReadLine = ReadOrder['lineItems']['nodes'][number];

/**
 * Finds an order by its name, such as `#1001`. Shopify shows orders of the last 60 days unless the app has the scope
 * `read_all_orders`.
 *
 * @returns undefined when there is no such order.
 * @throws CommerceFailure `final` for an order with more than 500 lines.
 */
export async function findOrder(
  client: ShopifyClient,
  shop: ShopifyShop,
  { name, signal }: { readonly name: string; readonly signal: AbortSignal },
): Promise<FoundOrder | undefined> {
  if (!NAME.test(name)) return undefined;
  const asked = { shop, operation: ORDERS_BY_NAME, variables: { query: `name:"${name}"` }, signal };
  const { orders } = await client.run(asked);
  const found = orders.nodes.find((order) => order.name === name);
  if (!found) return undefined;
  const currencies = { shop: found.currencyCode, presentment: found.presentmentCurrencyCode };
  return {
    id: BigInt(numberOf(found.id)),
    name: textOf(found.name),
    currencies,
    lines: await linesOf(client, shop, { order: found.id, currencies, signal }),
  };
}

async function linesOf(
  client: ShopifyClient,
  shop: ShopifyShop,
  {
    order,
    currencies,
    signal,
  }: { readonly order: string; readonly currencies: Currencies; readonly signal: AbortSignal },
): Promise<FoundLine[]> {
  const lines: FoundLine[] = [];
  let after: string | null = null;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const asked = { shop, operation: LINES_OF_ORDER, variables: { order, after }, signal };
    const found: ReadOrder = required((await client.run(asked)).order, 'order');
    lines.push(...found.lineItems.nodes.map((line) => lineOf(line, currencies)));
    if (!found.lineItems.pageInfo.hasNextPage) return lines;
    after = found.lineItems.pageInfo.endCursor;
  }
  throw new CommerceFailure('final', `Shopify: the order has more than ${lines.length} lines`);
}

/** Converts a line. A deleted product or variant has no id. */
function lineOf(line: ReadLine, currencies: Currencies): FoundLine {
  const { shopMoney, presentmentMoney } = line.discountedUnitPriceAfterAllDiscountsSet;
  const amounts = { shop: shopMoney.amount, presentment: presentmentMoney.amount };
  const paid = (side: keyof Both<unknown>) => ({
    price: minorOf(amounts[side], currencies[side]) * BigInt(line.quantity),
    discount: 0n,
    tax: 0n,
  });
  return {
    id: BigInt(numberOf(line.id)),
    title: textOf(line.title),
    sku: textOf(line.sku ?? ''),
    productId: line.product ? BigInt(numberOf(line.product.id)) : undefined,
    variantId: line.variant ? BigInt(numberOf(line.variant.id)) : undefined,
    quantity: line.quantity,
    returnable: line.refundableQuantity,
    paid: inBoth(paid),
    left: { units: line.refundableQuantity },
  };
}
