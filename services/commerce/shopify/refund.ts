import { z } from 'zod';
import { formatAmount, minorOf } from '../../platform/values/money.ts';
import { CommerceFailure, type Effect, type EffectRequest } from '../provider.ts';
import {
  gidOf,
  minorIn,
  numberOf,
  presentment,
  rejectUserErrors,
  required,
  textOf,
  timeOf,
  userErrors,
  uuidOf,
} from './answers.ts';
import { operation, type StoreSession } from './client.ts';

/** Maximum number of refunds of an order that are searched. Shopify lists the oldest first. */
const MAX_REFUNDS = 100;
/** Maximum number of transactions in a refund. It has one for each payment of the order. */
const MAX_TRANSACTIONS = 10;

const REFUND = `
fragment RefundParts on Refund {
  id
  createdAt
  note
  transactions(first: ${MAX_TRANSACTIONS}) {
    nodes { gateway status amountSet { presentmentMoney { amount currencyCode } } }
  }
}`;

const refund = z.object({
  id: z.string(),
  createdAt: z.string().nullable(),
  note: z.string().nullable(),
  transactions: z.object({
    nodes: z.array(
      z.object({ gateway: z.string().nullable(), status: z.string(), amountSet: presentment }),
    ),
  }),
});
type Refund = z.infer<typeof refund>;

/** Reads only the notes. With the transactions of each refund, the query would cost more than Shopify allows. */
export const LIST_REFUNDS = operation(
  `
query ListRefunds($order: ID!) {
  order(id: $order) { refunds(first: ${MAX_REFUNDS}) { id note } }
}`,
  z.object({
    order: z
      .object({ refunds: z.array(z.object({ id: z.string(), note: z.string().nullable() })) })
      .nullable(),
  }),
);

export const READ_REFUND = operation(
  `
query ReadRefund($id: ID!) {
  refund(id: $id) { ...RefundParts }
}
${REFUND}`,
  z.object({ refund: refund.nullable() }),
);

export const REFUNDABLE = operation(
  `
query Refundable($order: ID!) {
  order(id: $order) {
    presentmentCurrencyCode
    suggestedRefund(suggestFullRefund: true) {
      suggestedTransactions {
        gateway
        parentTransaction { id }
        maximumRefundableSet { presentmentMoney { amount currencyCode } }
      }
    }
  }
}`,
  z.object({
    order: z
      .object({
        presentmentCurrencyCode: z.string(),
        suggestedRefund: z
          .object({
            suggestedTransactions: z.array(
              z.object({
                gateway: z.string().nullable(),
                parentTransaction: z.object({ id: z.string() }).nullable(),
                maximumRefundableSet: presentment.nullable(),
              }),
            ),
          })
          .nullable(),
      })
      .nullable(),
  }),
);

export const CREATE_REFUND = operation(
  `
mutation CreateRefund($input: RefundInput!, $key: String!) {
  refundCreate(input: $input) @idempotent(key: $key) {
    refund { ...RefundParts }
    userErrors { field message }
  }
}
${REFUND}`,
  z.object({
    refundCreate: z.object({ refund: refund.nullable(), userErrors }).nullable(),
  }),
);

/** Finds the refund that has the key in its note. Refunds are read from their order, and not from a search index. */
export async function findRefund(
  store: StoreSession,
  request: EffectRequest,
): Promise<Effect | undefined> {
  const variables = { order: gidOf('Order', request.providerOrderId) };
  const { order } = await store.run(LIST_REFUNDS, variables);
  const found = order?.refunds.find(({ note }) => note?.includes(`(${request.key})`));
  if (found) {
    const { refund: whole } = await store.run(READ_REFUND, { id: found.id });
    return effectOf(required(whole, 'refund'), request);
  }
  if (order?.refunds.length === MAX_REFUNDS) {
    throw new CommerceFailure('passing', 'Shopify: the order has too many refunds to search');
  }
  return undefined;
}

/**
 * Refunds the amount to the payments of the order, in the order in which Shopify suggests them. The returned lines are
 * recorded as refunded, and are not restocked.
 *
 * @throws CommerceFailure `final`, when the order does not exist, has another currency, or when less than the amount is
 *   left.
 */
export async function createRefund(store: StoreSession, request: EffectRequest): Promise<Effect> {
  const known = await findRefund(store, request);
  if (known) return known;
  const order = gidOf('Order', request.providerOrderId);
  const found = await store.run(REFUNDABLE, { order });
  const variables = {
    key: uuidOf(request.key),
    input: {
      orderId: order,
      currency: request.currency,
      note: `Return ${request.returnId} (${request.key})`,
      notify: false,
      refundLineItems: request.lines
        .filter(({ providerLineItemId }) => providerLineItemId > 0n)
        .map(({ providerLineItemId, quantity }) => ({
          lineItemId: gidOf('LineItem', providerLineItemId),
          quantity,
          restockType: 'NO_RESTOCK',
        })),
      transactions: transactionsOf(found, request),
    },
  };
  const made = await store.run(CREATE_REFUND, variables);
  const payload = required(made.refundCreate, 'refundCreate');
  rejectUserErrors(payload.userErrors);
  return effectOf(required(payload.refund, 'refund'), request);
}

function transactionsOf(
  { order }: z.infer<typeof REFUNDABLE.data>,
  { providerOrderId, amount, currency }: EffectRequest,
) {
  if (!order) throw new CommerceFailure('final', 'Shopify: the order does not exist');
  if (order.presentmentCurrencyCode !== currency) {
    const other = textOf(order.presentmentCurrencyCode);
    throw new CommerceFailure('final', `Shopify: the order was paid in ${other}, not ${currency}`);
  }
  let left = minorOf(amount, currency);
  const parts = [];
  for (const payment of order.suggestedRefund?.suggestedTransactions ?? []) {
    const { gateway, parentTransaction, maximumRefundableSet } = payment;
    if (gateway === null || !parentTransaction || !maximumRefundableSet) continue;
    const most = minorIn(maximumRefundableSet.presentmentMoney);
    const part = left < most ? left : most;
    if (part <= 0n) continue;
    left -= part;
    parts.push({
      orderId: gidOf('Order', providerOrderId),
      parentId: parentTransaction.id,
      kind: 'REFUND',
      gateway,
      amount: formatAmount(part, currency),
    });
  }
  if (left === 0n) return parts;
  const missing = formatAmount(left, currency);
  const why = `of ${amount} ${currency}, ${missing} cannot be refunded: the order has less left`;
  throw new CommerceFailure('final', `Shopify: ${why}`);
}

/**
 * Converts a refund to an effect. The amount of the effect is the money that was moved. It is less than was requested
 * when a transaction of the refund failed.
 */
function effectOf(made: Refund, { currency }: EffectRequest): Effect {
  const moved = made.transactions.nodes.filter(
    ({ status }) => status !== 'FAILURE' && status !== 'ERROR',
  );
  const sum = moved.reduce((minor, { amountSet }) => {
    const money = amountSet.presentmentMoney;
    if (money.currencyCode === currency) return minor + minorIn(money);
    throw new CommerceFailure('passing', 'Shopify: the refund has another currency');
  }, 0n);
  return {
    id: numberOf(made.id),
    name: '',
    gateway: textOf(moved[0]?.gateway ?? 'shopify'),
    provider: 'shopify',
    amount: formatAmount(sum, currency),
    currency,
    createdAt: timeOf(made.createdAt),
  };
}
