import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  type Effect,
  EffectSchema,
  EffectState,
  EffectKind as KindMessage,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { returnNotFound } from '../errors.ts';
import type { ReturnRef } from '../return-ref.ts';
import type { EffectKind } from './provider.ts';

interface EffectRow {
  readonly kind: EffectKind;
  readonly key: string;
  readonly amount: string;
  readonly currency: string;
  readonly asked_at: Date | null;
  readonly done_at: Date | null;
  readonly provider_id: string | null;
  readonly name: string | null;
  readonly problem: string;
}

export const KIND_MESSAGES: Readonly<Record<EffectKind, KindMessage>> = {
  exchange_order: KindMessage.EXCHANGE_ORDER,
  gift_card: KindMessage.GIFT_CARD,
  refund: KindMessage.REFUND,
  restock: KindMessage.RESTOCK,
  order_cancel: KindMessage.ORDER_CANCEL,
};

/**
 * Returns the effects that processing planned or requested for a return, in the order of the requests.
 *
 * @throws DomainError RETURN_NOT_FOUND
 */
export async function listEffects(
  db: Queryable,
  { shopId, returnId }: ReturnRef,
): Promise<Effect[]> {
  const { rows } = await db.query<EffectRow | { readonly kind: null }>({
    name: 'list-effects',
    text: `select o.kind, o.key, o.amount, o.currency, o.asked_at, o.done_at, o.provider_id, o.name,
                  o.problem
             from returns r
             left join processing_outcomes o on o.shop_id = r.shop_id and o.return_id = r.id
            where r.shop_id = $1 and r.id = $2
            order by o.intended_at, o.kind`,
    values: [shopId, returnId],
  });
  if (rows.length === 0) throw returnNotFound();
  return rows.filter((row) => row.kind !== null).map(effectMessage);
}

function effectMessage(row: EffectRow): Effect {
  return create(EffectSchema, {
    kind: KIND_MESSAGES[row.kind],
    key: row.key,
    state: stateOf(row),
    amount: { value: row.amount, currency: row.currency },
    ...(row.asked_at && { requestedAt: timestampFromDate(row.asked_at) }),
    ...(row.done_at && { answeredAt: timestampFromDate(row.done_at) }),
    providerId: row.provider_id ?? '',
    name: row.name ?? '',
    problem: row.problem,
  });
}

/**
 * Returns `planned`, `unknown` or `made`. An effect is `unknown` when it was requested and no answer is known: it may
 * have been made (`isUnknownOutcome` in `known-outcomes.ts`).
 */
function stateOf({ asked_at, done_at }: EffectRow): EffectState {
  if (done_at) return EffectState.MADE;
  return asked_at ? EffectState.UNKNOWN : EffectState.PLANNED;
}
