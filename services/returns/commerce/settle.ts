import type pg from 'pg';
import { z } from 'zod';
import {
  type Effect,
  EffectKind,
  EffectKindSchema,
  type SettleEffectRequest,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { enumText } from '../../platform/enum-text.ts';
import { invalidField, stateForbids } from '../../platform/errors.ts';
import { parseId } from '../../platform/ids.ts';
import { callerShape, id, parseInput, requiredText, text } from '../../platform/input.ts';
import { formatAmount, parseAmount } from '../../platform/money.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { normalForm } from '../../platform/text.ts';
import { effectNotFound } from '../errors.ts';
import { showEffects } from '../processing/fulfilment.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { listEffects } from './effects.ts';
import { isUnknownOutcome } from './known-outcomes.ts';
import type { RequestWatch } from './request-watch.ts';

export interface SettleDeps {
  readonly pool: pg.Pool;
  readonly store: ReturnStore;
  readonly watch: RequestWatch;
}

const KIND = enumText(EffectKindSchema);
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
    const kind = KIND.toText(input.kind);
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
  const kind = KIND.toText(input.kind);
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
    `update processing_outcomes set asked_at = null, problem = ''
      where shop_id = $1 and return_id = $2 and kind = $3`,
    [shopId, returnId, KIND.toText(kind)],
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
      `must be empty: a ${KIND.toText(kind).replace('_', ' ')} has no amount`,
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
      KIND.toText(kind),
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
