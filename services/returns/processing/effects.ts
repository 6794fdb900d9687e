import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { z } from 'zod';
import {
  type Effect,
  EffectKind,
  EffectSchema,
  EffectState,
  type SettleEffectRequest,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { UpsellPaymentSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { effectKindText } from '../../commerce/provider.ts';
import type { RequestWatch } from '../../commerce/request-watch.ts';
import { isUnknownOutcome } from '../../commerce/unknown-outcomes.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { enumText } from '../../platform/values/enum-text.ts';
import { invalidField, stateForbids } from '../../platform/values/errors.ts';
import { parseId } from '../../platform/values/ids.ts';
import { callerShape, id, parseInput, requiredText, text } from '../../platform/values/input.ts';
import { formatAmount, parseAmount } from '../../platform/values/money.ts';
import { normalForm } from '../../platform/values/text.ts';
import { effectNotFound, returnNotFound } from '../errors.ts';
import type { ReturnRef } from '../return.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { showEffects } from './effect-store.ts';

interface EffectRow {
  readonly kind: string;
  readonly key: string;
  readonly amount: string;
  readonly currency: string;
  readonly asked_at: Date | null;
  readonly done_at: Date | null;
  readonly provider_id: string | null;
  readonly name: string | null;
  readonly problem: string;
  readonly upsell_payment: string;
  /** The amount above the credit of the return, which pays an exchange order. */
  readonly upsell: string;
  /** What of `upsell` the shopper has not paid in advance. */
  readonly due: string;
}

const UPSELL_PAYMENT = enumText(UpsellPaymentSchema);

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
                  o.problem, r.upsell_payment, paid.upsell,
                  case r.upsell_payment when 'prepaid' then paid.upsell - paid.upsell else paid.upsell end as due
             from returns r
             left join processing_outcomes o on o.shop_id = r.shop_id and o.return_id = r.id
             cross join lateral (
               select greatest(o.amount, r.presentment_return_credit) - r.presentment_return_credit as upsell
             ) paid
            where r.shop_id = $1 and r.id = $2
            order by o.intended_at, o.kind`,
    values: [shopId, returnId],
  });
  if (rows.length === 0) throw returnNotFound();
  return rows.filter((row) => row.kind !== null).map(effectMessage);
}

function effectMessage(row: EffectRow): Effect {
  return create(EffectSchema, {
    kind: effectKindText.fromText(row.kind),
    key: row.key,
    state: stateOf(row),
    amount: { value: row.amount, currency: row.currency },
    ...(row.asked_at && { requestedAt: timestampFromDate(row.asked_at) }),
    ...(row.done_at && { answeredAt: timestampFromDate(row.done_at) }),
    providerId: row.provider_id ?? '',
    name: row.name ?? '',
    problem: row.problem,
    ...(row.kind === 'exchange_order' && paymentOf(row)),
  });
}

/** Returns how the shopper pays an exchange order above the credit of the return. */
function paymentOf({ upsell, due, upsell_payment }: EffectRow) {
  const isUpsell = /[1-9]/.test(upsell);
  return { due, ...(isUpsell && { upsellPayment: UPSELL_PAYMENT.fromText(upsell_payment) }) };
}

/**
 * Returns `planned`, `unknown` or `made`. An effect is `unknown` when it was requested and no answer is known: it may
 * have been made (`isUnknownOutcome` in `unknown-outcomes.ts`).
 */
function stateOf({ asked_at, done_at }: EffectRow): EffectState {
  if (done_at) return EffectState.MADE;
  return asked_at ? EffectState.UNKNOWN : EffectState.PLANNED;
}

export interface SettleDeps {
  readonly pool: pg.Pool;
  readonly store: ReturnStore;
  readonly watch: RequestWatch;
}

const NAME_MAX = 191;
/** Maximum time that a request needs to reach the provider. Milliseconds. */
const ON_ITS_WAY_MS = 120_000;

const settling = z.object({
  ...callerShape,
  returnId: id,
  kind: z
    .enum(EffectKind, 'is unknown')
    .refine((kind) => kind !== EffectKind.UNSPECIFIED, 'is required'),
  made: z
    .object({
      providerId: requiredText(NAME_MAX),
      name: text(NAME_MAX),
      gateway: text(NAME_MAX),
      amount: text(40),
    })
    .optional(),
});

type Settling = z.output<typeof settling>;
type Made = NonNullable<Settling['made']>;

/**
 * Records what a person found at the provider about an effect with an unknown outcome. When it was made, it appears in
 * the details of the return. When it was not made, the next run of processing requests it.
 *
 * @returns the effect after the change.
 * @throws DomainError RETURN_NOT_FOUND; EFFECT_NOT_FOUND; INVALID_ARGUMENT; STATE_FORBIDS while the return is being
 *   processed, for a known outcome, and for a request that may still arrive.
 */
export async function settleEffect(
  { pool, store, watch }: SettleDeps,
  request: SettleEffectRequest,
): Promise<Effect> {
  const input = parseInput(settling, request);
  await store.change(input, async (tx, current) => {
    if (current.processing) throw stateForbids('the return is being processed; wait for its end');
    const { amount, currency } = await requireUnknown(tx, watch, input);
    const kind = effectKindText.toText(input.kind);
    const facts = input.made
      ? await recordMade(tx, input, { made: input.made, amount, currency })
      : await recordNothingMade(tx, input);
    const said = input.made ? 'was made' : 'was not made';
    return {
      value: undefined,
      timeline: [
        {
          returnId: current.id,
          kind: `return.processing.${kind}.settled`,
          text: `A person recorded that the ${kind.replace('_', ' ')} ${said} at the commerce provider`,
          facts,
        },
      ],
    };
  });
  const effects = await listEffects(pool, input);
  const settled = effects.find(({ kind }) => kind === input.kind);
  if (!settled) throw effectNotFound();
  return settled;
}

interface Requested {
  readonly amount: string;
  readonly currency: string;
}

/** Returns the amount of an effect with an unknown outcome. @throws DomainError EFFECT_NOT_FOUND; STATE_FORBIDS */
async function requireUnknown(
  tx: Queryable,
  watch: RequestWatch,
  { shopId, returnId, ...input }: Settling,
): Promise<Requested> {
  const kind = effectKindText.toText(input.kind);
  const { rows } = await tx.query<Requested & { isUnknown: boolean; askedAt: string }>(
    `select amount, currency, ${isUnknownOutcome('o')} as "isUnknown", asked_at::text as "askedAt"
       from processing_outcomes o where shop_id = $1 and return_id = $2 and kind = $3`,
    [shopId, returnId, kind],
  );
  const [row] = rows;
  if (!row) throw effectNotFound();
  if (!row.isUnknown) throw stateForbids('the outcome of the effect is known');
  const leftMs = ON_ITS_WAY_MS - watch.seenMs({ shopId, returnId, kind, askedAt: row.askedAt });
  if (leftMs > 0) {
    throw stateForbids(
      `the request may be younger than two minutes and may still arrive; try again in ${Math.ceil(leftMs / 1_000)} s`,
    );
  }
  return row;
}

async function recordNothingMade(tx: Queryable, { shopId, returnId, kind }: Settling) {
  await tx.query(
    `update processing_outcomes set asked_at = null, first_asked_at = null, problem = ''
      where shop_id = $1 and return_id = $2 and kind = $3`,
    [shopId, returnId, effectKindText.toText(kind)],
  );
  return {};
}

async function recordMade(
  tx: Queryable,
  { shopId, returnId, kind }: Settling,
  { made, amount: requested, currency }: Requested & { readonly made: Made },
) {
  const { name, gateway } = made;
  const provider = await providerOf(tx, shopId);
  const providerId = idAt(provider, made.providerId);
  const isRefund = kind === EffectKind.REFUND;
  const hasNumber = kind === EffectKind.EXCHANGE_ORDER || kind === EffectKind.GIFT_CARD;
  if (hasNumber && parseId(providerId) === undefined) {
    throw invalidField('made.provider_id', 'must be a whole number');
  }
  const hasAmount = kind !== EffectKind.RESTOCK && kind !== EffectKind.ORDER_CANCEL;
  if (!hasAmount && made.amount !== '') {
    throw invalidField(
      'made.amount',
      `must be empty: a ${effectKindText.toText(kind).replace('_', ' ')} has no amount`,
    );
  }
  const amount = made.amount === '' ? requested : amountOf(made, currency);
  await tx.query(
    `update processing_outcomes
        set done_at = now(), provider_created_at = now(), problem = '', amount = $4,
            provider_id = $5, name = $6, gateway = $7, provider = $8
      where shop_id = $1 and return_id = $2 and kind = $3`,
    [
      shopId,
      returnId,
      effectKindText.toText(kind),
      amount,
      providerId,
      hasNumber ? name : '',
      isRefund ? gateway : '',
      isRefund ? provider : '',
    ],
  );
  await showEffects(tx, { shopId, returnId });
  return { amount, currency, provider_id: providerId };
}

async function providerOf(tx: Queryable, shopId: bigint): Promise<string> {
  const { rows } = await tx.query<{ adapter: string }>(
    'select adapter from commerce_connections where shop_id = $1',
    [shopId],
  );
  return rows[0]?.adapter ?? 'embedded';
}

/**
 * Writes an id as the answers and events of the provider have it, with which it is compared. People copy the global id
 * of Shopify, such as `gid://shopify/Refund/991`.
 */
function idAt(provider: string, text: string): string {
  const id = normalForm(text);
  return provider === 'shopify' ? id.replace(/^gid:\/\/shopify\/\w+\//, '') : id;
}

function amountOf({ amount }: Made, currency: string): string {
  const minor = parseAmount('made.amount', amount, currency);
  if (minor === 0n) throw invalidField('made.amount', 'must be above zero');
  return formatAmount(minor, currency);
}
