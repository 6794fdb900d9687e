import { onlyRow } from '../../platform/only-row.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { named, type Sql, sql } from '../../platform/sql.ts';
import type { EffectKind, MadeOrder } from '../commerce/provider.ts';
import type { Fulfilment } from '../return.ts';
import type { ReturnRef } from '../return-ref.ts';
import type { PlannedStep } from './plan.ts';

// What runs of processing have made for a return. Rules of other use cases, such as cancelling, depend on this.

/**
 * Returns whether runs of processing have made effects for a return; with `kind`, only effects of this kind. When the
 * result is not `none`, money or goods may have moved. Steps that no run requested, or that the provider rejected, do
 * not count. A caller that decides by the result must hold the row lock of the return.
 */
export async function fulfilmentOf(
  tx: Queryable,
  ofReturn: ReturnRef,
  kind?: EffectKind,
): Promise<Fulfilment> {
  const result = await tx.query<{ isUnknown: boolean | null }>({
    name: 'processing-fulfilment',
    text: `select bool_or(done_at is null) as "isUnknown" from processing_outcomes
           where shop_id = $1 and return_id = $2 and ($3::text is null or kind = $3)
             and coalesce(done_at, asked_at) is not null`,
    values: [ofReturn.shopId, ofReturn.returnId, kind ?? null],
  });
  const isUnknown = onlyRow(result).isUnknown ?? undefined;
  if (isUnknown === undefined) return 'none';
  return isUnknown ? 'unknown' : 'made';
}

/** Whether a run has made an effect of this kind, or may have. See {@link fulfilmentOf}. */
export async function mayHaveFulfilled(
  tx: Queryable,
  of: ReturnRef,
  kind: EffectKind,
): Promise<boolean> {
  return (await fulfilmentOf(tx, of, kind)) !== 'none';
}

/** What runs requested of the commerce provider for a return that is to be cancelled. */
export interface Requested {
  /** The exchange order, when it was made or may have been; undefined otherwise. */
  readonly exchange: RequestedExchange | undefined;
  /** Whether the exchange order was cancelled. */
  readonly isOrderCancelled: boolean;
  /**
   * What processing has made or may have made besides the exchange order, such as a refund. A cancellation cannot undo
   * it.
   */
  readonly others: Fulfilment;
}

export interface RequestedExchange {
  readonly step: PlannedStep;
  /** The order; undefined while the outcome of its request is unknown. */
  readonly order: MadeOrder | undefined;
}

interface Row {
  readonly kind: PlannedStep['kind'];
  readonly key: string;
  readonly amount: string;
  readonly currency: string;
  readonly isDone: boolean;
  readonly providerId: string | null;
  readonly name: string | null;
}

/** Reads {@link Requested}. A caller that decides by the result must hold the return's row lock. */
export async function requestedOf(tx: Queryable, ofReturn: ReturnRef): Promise<Requested> {
  const { rows } = await tx.query<Row>({
    name: 'cancellation-requested',
    text: `select kind, key, amount, currency, done_at is not null as "isDone",
                  provider_id as "providerId", name
             from processing_outcomes
            where shop_id = $1 and return_id = $2 and coalesce(done_at, asked_at) is not null`,
    values: [ofReturn.shopId, ofReturn.returnId],
  });
  const exchange = rows.find(({ kind }) => kind === 'exchange_order');
  return {
    exchange: exchange && exchangeOf(exchange),
    isOrderCancelled: rows.some(({ kind, isDone }) => kind === 'order_cancel' && isDone),
    others: fulfilmentIn(rows.filter((row) => !PART_OF_CANCELLATION.has(row.kind))),
  };
}

/** The kinds that a cancellation undoes, and the kind of the cancellation itself. */
const PART_OF_CANCELLATION: ReadonlySet<string> = new Set(['exchange_order', 'order_cancel']);

function fulfilmentIn(requested: readonly Row[]): Fulfilment {
  if (requested.length === 0) return 'none';
  return requested.every(({ isDone }) => isDone) ? 'made' : 'unknown';
}

function exchangeOf({ isDone, providerId, name, ...step }: Row): RequestedExchange {
  if (!isDone) return { step, order: undefined };
  if (providerId === null) throw new Error(`the order of ${step.key} has no id of the provider`);
  return { step, order: { id: BigInt(providerId), name: name ?? '' } };
}

/** SQL: CTEs that add the effects that were made for a return to its details. */
export const shownEffects = ({ shopId, returnId }: ReturnRef): Sql => sql`
shown as (
  update processing_outcomes set shown_at = now()
  where shop_id = ${shopId} and return_id = ${returnId} and done_at is not null and shown_at is null
  returning *
), placed as (
  insert into provider_orders (shop_id, return_id, kind, provider_order_id, name, value, currency)
  select shop_id, return_id, case kind when 'gift_card' then 'gift_card' else 'exchange' end,
    provider_id::bigint, name,
    case kind when 'gift_card' then amount end, case kind when 'gift_card' then currency end
  from shown where kind in ('exchange_order', 'gift_card')
), refunded as (
  insert into refunds
    (shop_id, return_id, gateway, provider, provider_refund_id, value, currency, provider_created_at)
  select shop_id, return_id, gateway, provider, provider_id, amount, currency, provider_created_at
  from shown where kind = 'refund'
)`;

/**
 * Adds the effects that were made since the last run to the details of the return. Each run calls this function once,
 * at its end, also when the run fails. So a run changes the details only once.
 */
export async function showEffects(tx: Queryable, ofReturn: ReturnRef): Promise<void> {
  await tx.query(named('processing-show', sql`with ${shownEffects(ofReturn)} select from shown`));
}
