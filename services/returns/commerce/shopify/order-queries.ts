import { z } from 'zod';
import type { Operation } from './client.ts';
import { both, bothOwed } from './shapes.ts';

/** Number of lines on a page. A query may cost at most 1,000 points, and a line costs 22. */
const PAGE_LINES = 40;
/** Maximum number of lines of a refund that are read, and of refunds of an order. More are rejected. */
export const MAX_REFUND_LINES = 100;
export const MAX_REFUNDS = 20;
/** Maximum number of shipping lines. An order has one for each delivery. */
const MAX_SHIPPING_LINES = 20;
/** Maximum number of orders in a search. Names are unique, but the search also finds similar ones. */
const MAX_ORDERS = 10;

const BAG = `{
  presentmentMoney { amount currencyCode }
  shopMoney { amount currencyCode }
}`;
const taxLines = z.array(z.object({ priceSet: both }));

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

export const PAYMENT_OF_ORDER = {
  name: 'PaymentOfOrder',
  text: `
query PaymentOfOrder($order: ID!) {
  order(id: $order) {
    taxesIncluded
    dutiesIncluded
    totalOutstandingSet ${BAG}
    shippingLines(first: ${MAX_SHIPPING_LINES}) {
      nodes { discountedPriceSet ${BAG} taxLines { priceSet ${BAG} } }
    }
    refunds(first: ${MAX_REFUNDS + 1}) { id note }
  }
}`,
  data: z.object({
    order: z
      .object({
        taxesIncluded: z.boolean(),
        dutiesIncluded: z.boolean(),
        totalOutstandingSet: bothOwed,
        shippingLines: z.object({
          nodes: z.array(z.object({ discountedPriceSet: both, taxLines })),
        }),
        refunds: z.array(z.object({ id: z.string(), note: z.string().nullable() })),
      })
      .nullable(),
  }),
} satisfies Operation<z.ZodType>;

export const REFUND_LINES = {
  name: 'RefundLines',
  text: `
query RefundLines($id: ID!) {
  refund(id: $id) {
    totalRefundedSet ${BAG}
    duties { amountSet ${BAG} originalDuty { id } }
    refundLineItems(first: ${MAX_REFUND_LINES}) {
      pageInfo { hasNextPage }
      nodes { quantity lineItem { id } subtotalSet ${BAG} totalTaxSet ${BAG} }
    }
    refundShippingLines(first: ${MAX_SHIPPING_LINES}) {
      nodes { subtotalAmountSet ${BAG} taxAmountSet ${BAG} }
    }
  }
}`,
  data: z.object({
    refund: z
      .object({
        totalRefundedSet: both,
        duties: z
          .array(
            z.object({ amountSet: both, originalDuty: z.object({ id: z.string() }).nullable() }),
          )
          .nullable(),
        refundLineItems: z.object({
          pageInfo: z.object({ hasNextPage: z.boolean() }),
          nodes: z.array(
            z.object({
              quantity: z.int().min(0),
              lineItem: z.object({ id: z.string() }),
              subtotalSet: both,
              totalTaxSet: both,
            }),
          ),
        }),
        refundShippingLines: z.object({
          nodes: z.array(z.object({ subtotalAmountSet: both, taxAmountSet: both })),
        }),
      })
      .nullable(),
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
        unfulfilledQuantity
        isGiftCard
        requiresShipping
        product { id }
        variant { id }
        originalTotalSet ${BAG}
        discountAllocations { allocatedAmountSet ${BAG} }
        taxLines { priceSet ${BAG} }
        duties { id price ${BAG} taxLines { priceSet ${BAG} } }
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
              unfulfilledQuantity: z.int().min(0),
              isGiftCard: z.boolean(),
              requiresShipping: z.boolean(),
              product: z.object({ id: z.string() }).nullable(),
              variant: z.object({ id: z.string() }).nullable(),
              originalTotalSet: both,
              discountAllocations: z.array(z.object({ allocatedAmountSet: both })),
              taxLines,
              duties: z.array(z.object({ id: z.string(), price: both, taxLines })),
            }),
          ),
        }),
      })
      .nullable(),
  }),
} satisfies Operation<z.ZodType>;
