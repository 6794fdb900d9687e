import type { MessageInitShape } from '@bufbuild/protobuf';
import type { SummaryDetailsSchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { raw, type Sql, sql } from '../../platform/sql.ts';

/** Maximum number of titles in a summary. */
const TITLES = 3;

/** The columns for the details of a summary. The total of the list is the same in each row. */
export interface DetailsRow {
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
export const detailColumns = (count: Sql): Sql => sql`,
       r.customer_first_name, r.customer_last_name, r.customer_email, r.flag_reasons,
       r.fraud_reported_at is not null as is_reported, goods.units, goods.titles,
       (select counted.total from (${count}) counted) as total`;

/** SQL that joins the number and titles of the line items of a return `r`. */
export const GOODS = sql`
 cross join lateral (
    select coalesce(sum(l.quantity), 0)::int as units,
           (array_agg(l.title order by l.position))[1:${raw(TITLES)}] as titles
      from return_lines l
     where l.shop_id = r.shop_id and l.return_id = r.id and l.removed_at is null) goods`;

export function toDetails(row: DetailsRow): MessageInitShape<typeof SummaryDetailsSchema> {
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
