// What one statement of load.ts answers per return. Parts come as JSON: ids as numbers (all below
// 2^53), amounts as text, times as ISO 8601.

import type { LineTexts } from './line-row.ts';

export interface AmountsRow {
  readonly price: string;
  readonly discount: string;
  readonly tax: string;
}

export interface LineAmountsRow extends AmountsRow {
  readonly refund_item: string;
  readonly refund_tax: string;
  readonly refund_shipping: string;
  readonly refund_shipping_tax: string;
}

type Presentment<T> = { readonly [K in keyof T & string as `presentment_${K}`]: T[K] };

export interface ConditionRow {
  readonly description: string;
  readonly subject: string;
  readonly title: string;
  readonly grade: string | null;
  readonly category_name: string | null;
  readonly category_parent: string | null;
  readonly return_processor: string | null;
  readonly note: string | null;
  readonly inspected_at: Date | null;
  readonly images: readonly string[];
}

export interface DispositionRow {
  readonly outcome: string;
  readonly return_processor: string | null;
  readonly note: string | null;
  readonly inspected_at: Date | null;
  readonly images: readonly string[];
}

export interface LineRow extends LineAmountsRow, Presentment<LineAmountsRow> {
  readonly id: number;
  readonly provider_line_item_id: number;
  readonly provider_line_item_external_id: string;
  readonly product_id: number;
  readonly variant_id: number;
  readonly sku: string;
  readonly line_item_title: string;
  readonly variant_title: string;
  readonly title: string;
  readonly image: string;
  readonly quantity: number;
  readonly returned_at: Date | null;
  readonly exchange_variant: string;
  readonly barcode: string;
  readonly provider_restock_location_id: string;
  readonly consolidation_tracking: string;
  readonly consolidation_destination_id: number | null;
  readonly reason: string;
  readonly parent_reason: string;
  readonly outcome: string;
  readonly hs_code: string;
  readonly country_of_origin: string;
  readonly weight_g: number;
  readonly condition: ConditionRow | null;
  readonly disposition: DispositionRow | null;
}

export interface UploadRow {
  readonly id: number;
  readonly line_item_id: number;
  readonly kind: string;
  readonly source: string;
  readonly media_type: string;
  readonly url: string;
  readonly created_at: string;
}

export interface ExchangeRow extends AmountsRow, Presentment<AmountsRow> {
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

export interface SumsRow {
  readonly shipping: string;
  readonly shipping_tax: string;
  readonly credit_shipping: string;
  readonly return_credit: string;
  readonly handling_fee: string;
  readonly refund: string;
}

export interface ReturnRow extends SumsRow, Presentment<SumsRow> {
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
  readonly type: string;
  readonly outcome: string;
  readonly return_method: string;
  readonly currency: string;
  readonly presentment_currency: string;
  readonly destination_id: bigint | null;
  readonly status_page_url: string;
  readonly package_reference: string;
  readonly flag_reasons: readonly string[];
  readonly processing: boolean;
  readonly lines: readonly LineTexts[];
  readonly uploads: readonly UploadRow[];
  readonly exchanges: readonly ExchangeRow[];
  readonly provider_orders: readonly ProviderOrderRow[];
  readonly refunds: readonly RefundRow[];
  readonly labels: readonly LabelRow[];
}
