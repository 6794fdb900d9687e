import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { type Timestamp, timestampFromDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import {
  LabelStatus,
  ReturnMethodSchema,
  ReturnTypeSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type ReturnSummary,
  ReturnSummarySchema,
  type SummaryDetailsSchema,
  type SummaryTotalsSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { param, raw, type Sql, sql, unnamed } from '../../platform/postgres/sql.ts';
import { enumText } from '../../platform/values/enum-text.ts';
import { formatAmount, minorOf, type Side } from '../../platform/values/money.ts';
import { labelStatusText, outcomeText, stateText } from '../store/texts.ts';
import { orderBy, type Sorting } from './cursor.ts';

const AMOUNTS = ['return_total', 'shipping', 'return_credit', 'handling_fee', 'refund'] as const;
type AmountColumn = `${Side}${(typeof AMOUNTS)[number]}`;

interface SummaryRow extends Readonly<Record<AmountColumn, string>>, Partial<DetailsRow> {
  readonly id: bigint;
  readonly order_id: bigint;
  readonly order_name: string;
  readonly order_number: bigint;
  readonly provider_order_number: bigint;
  readonly provider_order_id: bigint;
  readonly state: string;
  readonly type: string;
  readonly outcome: string;
  readonly return_method: string;
  readonly processing: boolean;
  readonly currency: string;
  readonly presentment_currency: string;
  readonly destination_id: bigint | null;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly edited_at: Date | null;
  readonly archived_at: Date | null;
  readonly label_status: string | null;
  readonly label_updated_at: Date | null;
  readonly carrier: string | null;
  readonly tracking_number: string | null;
}

const typeText = enumText(ReturnTypeSchema);
const methodText = enumText(ReturnMethodSchema);

interface SummaryPage {
  readonly shopId: bigint;
  /** SQL that selects `id` and `at` of the returns on the page. */
  readonly page: Sql;
  readonly sorting: Sorting;
  /** SQL that selects the `total` of the list. When it is present, summaries have their details. */
  readonly count?: Sql | undefined;
}

/**
 * Reads the summaries of a page of returns, in its order, with one statement. A summary has only columns of the return,
 * its order and its newest label. With `count` it also has the {@link DetailsRow}. The total is 0 without `count`, and
 * for a page without returns.
 */
export async function summariesOf(
  pool: pg.Pool,
  o: SummaryPage,
): Promise<{ readonly summaries: ReturnSummary[]; readonly total: number }> {
  const { rows } = await pool.query<SummaryRow>(unnamed(selectSummaries(o)));
  return { summaries: rows.map(toSummary), total: rows[0]?.total ?? 0 };
}

/** The statement of {@link summariesOf}. */
function selectSummaries(o: SummaryPage): Sql {
  const shop = param(o.shopId);
  return sql`
select r.id, r.order_id, r.order_name, r.order_number, r.provider_order_number, o.provider_order_id,
       r.state, r.type, r.outcome, r.return_method, r.processing, r.currency, r.presentment_currency,
       r.return_total, r.shipping, r.return_credit, r.handling_fee, r.refund,
       r.presentment_return_total, r.presentment_shipping, r.presentment_return_credit,
       r.presentment_handling_fee, r.presentment_refund,
       r.destination_id, r.created_at, r.updated_at, r.edited_at, r.archived_at,
       newest.status as label_status, newest.updated_at as label_updated_at, newest.carrier,
       newest.tracking_number${o.count ? detailColumns(o.count) : sql``}
  from (${o.page}) page
  join returns r on r.shop_id = ${shop} and r.id = page.id
  join orders o on o.shop_id = ${shop} and o.id = r.order_id
  left join lateral (
    select b.status, b.updated_at, b.carrier, b.tracking_number from labels b
     where b.shop_id = r.shop_id and b.return_id = r.id
     order by b.created_at desc, b.id desc limit 1) newest on true
 ${o.count ? GOODS : sql``}
 ${orderBy('page', 'at', o.sorting)}`;
}

function toSummary(row: SummaryRow): ReturnSummary {
  return create(ReturnSummarySchema, {
    id: row.id,
    order: {
      id: row.order_id,
      providerOrderId: row.provider_order_id,
      name: row.order_name,
      number: row.order_number,
      providerOrderNumber: row.provider_order_number,
    },
    state: stateText.fromText(row.state),
    type: typeText.fromText(row.type),
    outcome: outcomeText.fromText(row.outcome),
    returnMethod: methodText.fromText(row.return_method),
    processing: row.processing,
    currency: row.currency,
    presentmentCurrency: row.presentment_currency,
    totals: totalsIn(row, ''),
    presentmentTotals: totalsIn(row, 'presentment_'),
    ...labelOf(row),
    destinationId: row.destination_id ?? 0n,
    createdAt: timestampFromDate(row.created_at),
    updatedAt: timestampFromDate(row.updated_at),
    ...optionalTimes(row),
    ...(hasDetails(row) && { details: toDetails(row) }),
  });
}

function hasDetails(row: SummaryRow): row is SummaryRow & DetailsRow {
  return row.units !== undefined;
}

function totalsIn(row: SummaryRow, side: Side): MessageInitShape<typeof SummaryTotalsSchema> {
  const currency = side === '' ? row.currency : row.presentment_currency;
  const minor = (name: (typeof AMOUNTS)[number]) => minorOf(row[`${side}${name}`], currency);
  const fee = minor('handling_fee');
  return {
    // The same as in `totalsOf`, because the sums of the line items are stored with the return.
    total: formatAmount(minor('return_total') + minor('shipping') - fee, currency),
    refund: formatAmount(minor('refund'), currency),
    returnCreditTotal: formatAmount(minor('return_credit'), currency),
    handlingFee: formatAmount(fee, currency),
  };
}

function labelOf(row: SummaryRow) {
  return {
    labelStatus: row.label_status
      ? labelStatusText.fromText(row.label_status)
      : LabelStatus.UNSPECIFIED,
    ...(row.label_updated_at && { labelUpdatedAt: timestampFromDate(row.label_updated_at) }),
    carrier: row.carrier ?? '',
    trackingNumber: row.tracking_number ?? '',
  };
}

function optionalTimes(row: SummaryRow): { editedAt?: Timestamp; archivedAt?: Timestamp } {
  return {
    ...(row.edited_at && { editedAt: timestampFromDate(row.edited_at) }),
    ...(row.archived_at && { archivedAt: timestampFromDate(row.archived_at) }),
  };
}

/** Maximum number of titles in a summary. */
const TITLES = 3;

/** The columns for the details of a summary. The total of the list is the same in each row. */
interface DetailsRow {
  readonly customer_first_name: string | null;
  readonly customer_last_name: string | null;
  readonly customer_email: string | null;
  readonly flag_reasons: readonly string[];
  readonly is_reported: boolean;
  readonly units: number;
  readonly titles: readonly string[] | null;
  readonly total: number;
}

/**
 * SQL for the columns of {@link DetailsRow}, from returns `r` and their {@link GOODS}. @param count SQL that selects
 * `total`.
 */
const detailColumns = (count: Sql): Sql => sql`,
       r.customer_first_name, r.customer_last_name, r.customer_email, r.flag_reasons,
       r.fraud_reported_at is not null as is_reported, goods.units, goods.titles,
       (select counted.total from (${count}) counted) as total`;

/** SQL that joins the number and titles of the line items of a return `r`. */
const GOODS = sql`
 cross join lateral (
    select coalesce(sum(l.quantity), 0)::int as units,
           (array_agg(l.title order by l.position))[1:${raw(TITLES)}] as titles
      from return_lines l
     where l.shop_id = r.shop_id and l.return_id = r.id and l.removed_at is null) goods`;

function toDetails(row: DetailsRow): MessageInitShape<typeof SummaryDetailsSchema> {
  return {
    customerFirstName: row.customer_first_name ?? '',
    customerLastName: row.customer_last_name ?? '',
    customerEmail: row.customer_email ?? '',
    flagReasons: [...row.flag_reasons],
    fraudReported: row.is_reported,
    units: row.units,
    titles: [...(row.titles ?? [])],
  };
}
