import { create, toJson } from '@bufbuild/protobuf';
import { AddressSchema } from '../../../proto/gen/rms/returns/v1/address_pb.ts';
import { ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { FoundOrder } from '../../commerce/provider.ts';
import { allInOrder } from '../../platform/postgres/all-in-order.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import { type Queryable, together } from '../../platform/postgres/postgres.ts';
import {
  amountColumns,
  type Both,
  type Currencies,
  formatAmount,
} from '../../platform/values/money.ts';
import { LINE_FIELDS, RETURN_FIELDS } from '../fields.ts';
import {
  type CheckedSums,
  EXCHANGE_AMOUNTS,
  type ExchangeSums,
  LINE_AMOUNTS,
  type LineSums,
  STORED_RETURN_AMOUNTS,
} from '../money/totals.ts';
import type { PolicyVersion } from '../policy/policy-store.ts';
import { submitterText } from '../policy/submitter.ts';
import { insertStatusLink } from '../status-links.ts';
import { stateText } from '../store/texts.ts';
import { insertWithdrawalReturn } from '../withdrawals/withdrawal-store.ts';
import type { Submission, SubmittedExchange, SubmittedLine } from './submission.ts';

/** A submission whose amounts are parsed and checked. */
export interface CheckedSubmission {
  readonly submission: Submission;
  readonly currencies: Currencies;
  readonly lines: readonly { readonly line: SubmittedLine; readonly sums: Both<LineSums> }[];
  readonly exchanges: readonly {
    readonly exchange: SubmittedExchange;
    readonly sums: Both<ExchangeSums>;
  }[];
  readonly sums: Both<CheckedSums>;
  /** What the order paid for shipping; undefined when it is not known. */
  readonly paidShipping: Both<bigint> | undefined;
  /** See `goodsLimitOf`; absent when the order was not looked up. */
  readonly goodsLimit?: Both<bigint> | undefined;
  readonly createdAt: Date;
  /** The end of the shopper's link; absent when the submitter gave a link, and for a shop without a page. */
  readonly statusToken?: string;
  /** The policy that judged it; absent when the policy was not used. */
  readonly policy?: PolicyVersion | undefined;
  /** The order at the provider; absent when it was not looked up. */
  readonly found?: FoundOrder | undefined;
}

/**
 * Finds or creates the row of an order, and locks it, so that submissions of the order run one after the other.
 *
 * @returns this service's id of the order.
 */
export async function lockOrderRow(
  tx: Queryable,
  shopId: bigint,
  providerOrderId: bigint,
): Promise<bigint> {
  const values = [shopId, providerOrderId];
  const add = () =>
    tx.query({
      name: 'add-order',
      text: `insert into orders (shop_id, provider_order_id)
             select $1::bigint, $2::bigint
              where not exists (select from orders where shop_id = $1 and provider_order_id = $2)
             on conflict (shop_id, provider_order_id) do nothing`,
      values,
    });
  const lock = () =>
    tx.query<{ id: bigint }>({
      name: 'lock-order-row',
      text: 'select id from orders where shop_id = $1 and provider_order_id = $2 for no key update',
      values,
    });
  const [, locked] = await together(tx, () => allInOrder([add(), lock()]));
  return onlyRow(locked).id;
}

/** Stores a submission without its parts. Returns the ids of the new return and of its order. */
export async function insertReturn(
  tx: Queryable,
  checked: CheckedSubmission,
): Promise<{ readonly id: bigint; readonly orderId: bigint }> {
  const { submission, currencies, sums } = checked;
  const { shopId, customer, order } = submission;
  const orderId = await lockOrderRow(tx, shopId, order.providerOrderId);
  const row = {
    created_at: checked.createdAt,
    order_id: orderId.toString(),
    order_name: order.name,
    order_number: order.number.toString(),
    provider_order_number: order.providerOrderNumber.toString(),
    customer_email: customer.email,
    customer_first_name: customer.firstName,
    customer_last_name: customer.lastName,
    customer_address: customer.address
      ? toJson(AddressSchema, create(AddressSchema, customer.address))
      : null,
    state: stateText.toText(
      submission.flagReasons.length > 0 ? ReturnState.REVIEW : ReturnState.OPEN,
    ),
    ...RETURN_FIELDS.toColumns(submission),
    currency: currencies.shop,
    presentment_currency: currencies.presentment,
    ...amountColumns(STORED_RETURN_AMOUNTS, sums, currencies),
    flag_reasons: submission.flagReasons,
    policy_version: checked.policy?.version.toString() ?? null,
    order_facts: checked.found ? orderFacts(checked.found, submission.lines) : null,
    submitter: submitterText(submission.submitter),
  };
  const columns = Object.keys(row).join(', ');
  const { rows } = await tx.query<{ id: bigint }>(
    `insert into returns (shop_id, ${columns})
     select $1, ${columns} from jsonb_populate_record(null::returns, $2::jsonb)
     returning id`,
    [shopId, JSON.stringify(row)],
  );
  return { id: onlyRow({ rows }).id, orderId };
}

/** Stores the parts of a submission, and what it says about its order. */
export async function insertParts(
  tx: Queryable,
  { id, orderId }: { readonly id: bigint; readonly orderId: bigint },
  checked: CheckedSubmission,
): Promise<void> {
  await together(tx, () =>
    allInOrder([
      ...(checked.paidShipping ? [recordPaidShipping(tx, orderId, checked)] : []),
      ...(checked.goodsLimit ? [recordGoodsLimit(tx, orderId, checked)] : []),
      ...(checked.statusToken === undefined
        ? []
        : [
            insertStatusLink(tx, {
              ...{ shopId: checked.submission.shopId, returnId: id, token: checked.statusToken },
            }),
          ]),
      ...ofWithdrawal(tx, id, checked),
      insertLines(tx, id, checked),
      insertExchanges(tx, id, checked),
    ]),
  );
}

function ofWithdrawal(
  tx: Queryable,
  returnId: bigint,
  { submission: { shopId, withdrawalId } }: CheckedSubmission,
): Promise<void>[] {
  if (withdrawalId === 0n) return [];
  return [insertWithdrawalReturn(tx, { shopId, withdrawalId, returnId })];
}

/** The newest number counts, because the caller may have learned more. */
async function recordPaidShipping(tx: Queryable, orderId: bigint, checked: CheckedSubmission) {
  const { submission, paidShipping = { shop: 0n, presentment: 0n }, currencies } = checked;
  await tx.query(
    `update orders
        set paid_shipping = $3, presentment_paid_shipping = $4, paid_shipping_in = $5
      where shop_id = $1 and id = $2`,
    [
      submission.shopId,
      orderId,
      formatAmount(paidShipping.shop, currencies.shop),
      formatAmount(paidShipping.presentment, currencies.presentment),
      `${currencies.shop} ${currencies.presentment}`,
    ],
  );
}

/** The newest look-up counts. */
async function recordGoodsLimit(tx: Queryable, orderId: bigint, checked: CheckedSubmission) {
  const { submission, goodsLimit = { shop: 0n, presentment: 0n }, currencies } = checked;
  await tx.query(
    `update orders set goods_limit = $3, presentment_goods_limit = $4, goods_limit_in = $5
      where shop_id = $1 and id = $2`,
    [
      submission.shopId,
      orderId,
      formatAmount(goodsLimit.shop, currencies.shop),
      formatAmount(goodsLimit.presentment, currencies.presentment),
      `${currencies.shop} ${currencies.presentment}`,
    ],
  );
}

/** What policies need of an order, as it is stored with a return. */
export interface OrderFactsRow {
  readonly ordered_at?: string | undefined;
  readonly fulfilled_at?: string | undefined;
  readonly delivered_at?: string | undefined;
  readonly country?: string | undefined;
  /** By the provider's id of the order line. */
  readonly tags: Readonly<Record<string, readonly string[]>>;
}

function orderFacts(found: FoundOrder, lines: readonly SubmittedLine[]): OrderFactsRow {
  const ids = new Set(lines.map((line) => line.providerLineItemId));
  return {
    ordered_at: found.orderedAt?.toISOString(),
    fulfilled_at: found.fulfilledAt?.toISOString(),
    delivered_at: found.deliveredAt?.toISOString(),
    country: found.shippingCountry,
    tags: Object.fromEntries(
      found.lines.flatMap(({ id, tags }) => (tags && ids.has(id) ? [[String(id), tags]] : [])),
    ),
  };
}

async function insertLines(tx: Queryable, returnId: bigint, checked: CheckedSubmission) {
  const { submission, lines, currencies } = checked;
  const rows = lines.map(({ line, sums }, position) => ({
    position,
    ...lineColumns(line),
    ...amountColumns(LINE_AMOUNTS, sums, currencies),
  }));
  await insertRows(tx, { table: 'return_lines', shopId: submission.shopId, returnId, rows });
}

async function insertExchanges(tx: Queryable, returnId: bigint, checked: CheckedSubmission) {
  const { submission, exchanges, currencies } = checked;
  const rows = exchanges.map(({ exchange, sums }, position) => ({
    position,
    ...exchangeColumns(exchange),
    ...amountColumns(EXCHANGE_AMOUNTS, sums, currencies),
  }));
  if (rows.length === 0) return;
  await insertRows(tx, { table: 'exchanges', shopId: submission.shopId, returnId, rows });
}

/** Inserts rows with the same columns in one statement. */
async function insertRows(
  tx: Queryable,
  o: {
    readonly table: 'return_lines' | 'exchanges';
    readonly shopId: bigint;
    readonly returnId: bigint;
    readonly rows: readonly object[];
  },
): Promise<void> {
  const columns = Object.keys(o.rows[0] ?? {}).join(', ');
  await tx.query(
    `insert into ${o.table} (shop_id, return_id, ${columns})
     select $1, $2, ${columns} from jsonb_populate_recordset(null::${o.table}, $3::jsonb)
      order by position`,
    [o.shopId, o.returnId, JSON.stringify(o.rows)],
  );
}

/** The columns of a line item, except its amounts. */
export function lineColumns(line: SubmittedLine) {
  return {
    ...LINE_FIELDS.toColumns(line),
    title: line.title || [line.lineItemTitle, line.variantTitle].filter(Boolean).join(' - '),
    ordered_quantity: line.orderedQuantity,
  };
}

function exchangeColumns(exchange: SubmittedExchange) {
  return {
    product_id: exchange.productId.toString(),
    variant_id: exchange.variantId.toString(),
    sku: exchange.sku,
    title: exchange.title,
    type: exchange.type,
    out_of_stock: exchange.outOfStock,
    out_of_stock_resolution: exchange.outOfStockResolution,
  };
}
