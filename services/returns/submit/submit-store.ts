import { create, toJson } from '@bufbuild/protobuf';
import { AddressSchema, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Queryable } from '../../platform/postgres.ts';
import {
  amountColumns,
  EXCHANGE_AMOUNTS,
  LINE_AMOUNTS,
  RETURN_AMOUNTS,
  shippingColumns,
} from '../money/amount-columns.ts';
import type { Both } from '../money/amounts.ts';
import { type CheckedSums, givenShipping } from '../money/return-sums.ts';
import type { ExchangeSums, LineSums } from '../money/totals.ts';
import type { Currencies } from '../store/line-message.ts';
import { lineOutcomeText, methodText, outcomeText, stateText, typeText } from '../store/texts.ts';
import type { Submission, SubmittedExchange, SubmittedLine } from './submission.ts';

/** A submission with its sums read and checked. */
export interface CheckedSubmission {
  readonly submission: Submission;
  readonly currencies: Currencies;
  readonly lines: readonly { readonly line: SubmittedLine; readonly sums: Both<LineSums> }[];
  readonly exchanges: readonly {
    readonly exchange: SubmittedExchange;
    readonly sums: Both<ExchangeSums>;
  }[];
  readonly sums: Both<CheckedSums>;
  readonly createdAt: Date;
}

/**
 * Finds or makes the shop's own id of an order, and locks it: submissions for one order wait for one
 * another.
 */
async function orderIdOf(tx: Queryable, shopId: bigint, providerOrderId: bigint): Promise<bigint> {
  const find = () =>
    tx.query<{ id: bigint }>(
      'select id from orders where shop_id = $1 and provider_order_id = $2 for no key update',
      [shopId, providerOrderId],
    );
  const found = (await find()).rows[0];
  if (found) return found.id;
  await tx.query(
    `insert into orders (shop_id, provider_order_id) values ($1, $2)
     on conflict (shop_id, provider_order_id) do nothing`,
    [shopId, providerOrderId],
  );
  const made = (await find()).rows[0];
  if (!made) throw new Error('an order vanished while it was made');
  return made.id;
}

/** Stores a submission and returns its id. */
export async function insertReturn(tx: Queryable, checked: CheckedSubmission): Promise<bigint> {
  const { submission, currencies, sums } = checked;
  const { shopId, customer, order } = submission;
  const row = {
    created_at: checked.createdAt,
    order_id: (await orderIdOf(tx, shopId, order.providerOrderId)).toString(),
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
    type: typeText.toText(submission.type),
    outcome: outcomeText.toText(submission.outcome),
    return_method: methodText.toText(submission.returnMethod),
    currency: currencies.shop,
    presentment_currency: currencies.presentment,
    ...amountColumns(RETURN_AMOUNTS, sums, currencies),
    ...shippingColumns(givenShipping(submission.amounts)),
    destination_id: submission.destinationId === 0n ? null : submission.destinationId.toString(),
    status_page_url: submission.statusPageUrl,
    package_reference: submission.packageReference,
    flag_reasons: submission.flagReasons,
  };
  const columns = Object.keys(row).join(', ');
  const { rows } = await tx.query<{ id: bigint }>(
    `insert into returns (shop_id, ${columns})
     select $1, ${columns} from jsonb_populate_record(null::returns, $2::jsonb)
     returning id`,
    [shopId, JSON.stringify(row)],
  );
  if (!rows[0]) throw new Error('a return was not stored');
  const { id } = rows[0];
  await insertLines(tx, id, checked);
  await insertExchanges(tx, id, checked);
  return id;
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

/** Inserts rows with the same columns in one statement, however many. */
async function insertRows(
  tx: Queryable,
  o: {
    table: 'return_lines' | 'exchanges';
    shopId: bigint;
    returnId: bigint;
    rows: readonly object[];
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

function lineColumns(line: SubmittedLine) {
  return {
    provider_line_item_id: line.providerLineItemId.toString(),
    provider_line_item_external_id: line.providerLineItemExternalId,
    product_id: line.productId.toString(),
    variant_id: line.variantId.toString(),
    sku: line.sku,
    line_item_title: line.lineItemTitle,
    variant_title: line.variantTitle,
    title: line.title || [line.lineItemTitle, line.variantTitle].filter(Boolean).join(' - '),
    image: line.image,
    quantity: line.quantity,
    exchange_variant: line.exchangeVariant,
    barcode: line.barcode,
    provider_restock_location_id: line.providerRestockLocationId,
    reason: line.reason,
    parent_reason: line.parentReason,
    outcome: lineOutcomeText.toText(line.outcome),
    hs_code: line.hsCode,
    country_of_origin: line.countryOfOrigin,
    weight_g: line.weightG,
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
