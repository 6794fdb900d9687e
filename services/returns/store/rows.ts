import type { EXCHANGE_AMOUNTS } from '../money/totals.ts';

// The row that `selectDetails` selects for one return. Some parts are JSON: there, ids are numbers (all below 2^53),
// amounts are texts, and times are ISO 8601.

/** A line item from the database: its columns as texts, in the order in which they are selected. */
export type LineTexts = readonly (string | null)[];

export interface UploadRow {
  readonly id: number;
  readonly line_item_id: number;
  readonly kind: string;
  readonly source: string;
  readonly media_type: string;
  readonly url: string;
  readonly created_at: string;
}

type ExchangeAmount = (typeof EXCHANGE_AMOUNTS)[number];

export interface ExchangeRow
  extends Readonly<Record<ExchangeAmount | `presentment_${ExchangeAmount}`, string>> {
  readonly id: number;
  readonly product_id: number;
  readonly variant_id: number;
  readonly sku: string;
  readonly title: string;
  readonly type: string;
  readonly out_of_stock: boolean;
  readonly out_of_stock_resolution: string | null;
}

export interface ProviderOrderRow {
  readonly kind: 'exchange' | 'gift_card';
  readonly provider_order_id: number;
  readonly name: string;
  readonly value: string | null;
  readonly currency: string | null;
}

export interface RefundRow {
  readonly id: number;
  readonly gateway: string;
  readonly provider: string;
  readonly provider_refund_id: string;
  readonly value: string;
  readonly currency: string;
  readonly provider_created_at: string;
  readonly created_at: string;
  readonly updated_at: string;
}

export interface LabelRow {
  readonly id: number;
  readonly return_id: number;
  readonly carrier: string;
  readonly tracking_number: string;
  readonly url: string;
  readonly rate: string | null;
  readonly status: string;
  readonly line_item_ids: readonly number[];
  readonly created_at: string;
  readonly updated_at: string;
}

/** A row of a return. It has these columns, and those of RETURN_FIELDS and RETURN_AMOUNTS. */
export type ReturnRow = ReturnColumns & Readonly<Record<string, unknown>>;

interface ReturnColumns {
  readonly shop_id: bigint;
  readonly id: bigint;
  readonly revision: bigint;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly edited_at: Date | null;
  readonly archived_at: Date | null;
  readonly order_id: bigint;
  readonly order_name: string;
  readonly order_number: bigint;
  readonly provider_order_id: bigint;
  readonly provider_order_number: bigint;
  readonly customer_email: string | null;
  readonly customer_first_name: string | null;
  readonly customer_last_name: string | null;
  readonly customer_address: object | null;
  readonly state: string;
  readonly currency: string;
  readonly presentment_currency: string;
  readonly flag_reasons: readonly string[];
  readonly processing: boolean;
  readonly policy_version: bigint | null;
  readonly submitter: string | null;
  readonly unexpected_quantity: number;
  readonly lines: readonly LineTexts[];
  readonly uploads: readonly UploadRow[];
  readonly exchanges: readonly ExchangeRow[];
  readonly provider_orders: readonly ProviderOrderRow[];
  readonly refunds: readonly RefundRow[];
  readonly labels: readonly LabelRow[];
}
