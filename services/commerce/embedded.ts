import type { Pool } from 'pg';
import { parseExactJson } from '../contract/validate/exact-json.ts';
import { isOutage } from '../platform/postgres/outage.ts';
import type { Queryable } from '../platform/postgres/postgres.ts';
import { named, param, raw, sql } from '../platform/postgres/sql.ts';
import { within } from '../platform/process/within.ts';
import {
  type AdditionalDetails,
  CommerceFailure,
  type CommerceProvider,
  type Effect,
  type EffectKind,
  type EffectRequest,
  type FailureKind,
  isDue,
  isOrder,
  LedgerUnavailable,
} from './provider.ts';
import { findSampleOrder } from './sample-orders.ts';

/** The gateway and the provider of refunds in the ledger. */
const PROVIDER = 'embedded';

/** One effect in the ledger. */
export interface LedgerEntry {
  readonly id: bigint;
  readonly amount: string;
  readonly currency: string;
  /** What the shopper must still pay of an exchange order; 0 for other kinds. */
  readonly due: string;
  readonly idempotencyKey: string;
  /** How often the key was used. Only the first use had an effect. */
  readonly calls: number;
  readonly additionalDetails: AdditionalDetails;
}

/** The effects of a return by kind, oldest first. */
export interface LedgerOfReturn {
  readonly orders: readonly LedgerEntry[];
  readonly giftCards: readonly LedgerEntry[];
  readonly refunds: readonly LedgerEntry[];
  readonly restocks: readonly LedgerEntry[];
  readonly cancellations: readonly LedgerEntry[];
}

export interface EmbeddedCommerce extends CommerceProvider {
  /** Makes the next `times` calls for a return fail, even after a restart. 0 ends this. Unknown returns are ignored. */
  failNext(o: { returnId: bigint; kind: FailureKind; times: number }): Promise<void>;
  /** Returns the effects for a return, by kind, oldest first. There are none for an unknown return. */
  ordersOf(returnId: bigint): Promise<LedgerOfReturn>;
}

/**
 * A commerce provider that needs no shop platform: its ledger is in PostgreSQL.
 *
 * It has its own transactions, like a remote provider. So an entry stays when the process that requested it dies
 * directly afterwards. Its ids start at 10^12, far above the ids of this service.
 */
export function createEmbeddedCommerce(pool: Pool): EmbeddedCommerce {
  return {
    settledAfterMs: 0,
    lookUp: (order) => inLedger(() => findSampleOrder(pool, order)),
    create: async (request) => effectOf(await inLedger(() => record(pool, request))),
    async find({ shopId, key, kind }) {
      const { rows } = await inLedger(() => pool.query<EntryRow>(ENTRY, [shopId, key, kind]));
      return rows[0] && effectOf(rows[0]);
    },
    async list({ shopId, from, to, cursor }) {
      const { rows } = await inLedger(() =>
        pool.query<EntryRow>(PAGE, [shopId, from, to, BigInt(cursor || '0'), PAGE_SIZE]),
      );
      const effects = rows.map((row) => ({
        ...effectOf(row),
        kind: row.kind,
        key: row.idempotency_key,
      }));
      return { effects, cursor: rows.length < PAGE_SIZE ? '' : (effects.at(-1)?.id ?? '') };
    },
    async failNext(o) {
      await pool.query(PLAN_FAILURE, [o.returnId, o.kind, o.times]);
    },
    async ordersOf(returnId) {
      const { rows } = await pool.query<EntryRow>(ENTRIES, [returnId]);
      const entriesOf = (kind: EffectKind) => rows.filter((row) => row.kind === kind).map(entry);
      return {
        orders: entriesOf('exchange_order'),
        giftCards: entriesOf('gift_card'),
        refunds: entriesOf('refund'),
        restocks: entriesOf('restock'),
        cancellations: entriesOf('order_cancel'),
      };
    },
  };
}

/**
 * Timeout of the ledger. It is shorter than that of a call, so that a hanging database does not count as a failure of
 * the provider. Milliseconds.
 */
const LEDGER_TIMEOUT_MS = 6_000;

/** @throws LedgerUnavailable when the database does not respond in time, or is unavailable. */
async function inLedger<T>(work: () => Promise<T>): Promise<T> {
  try {
    const working = work();
    const isInTime = await within(LEDGER_TIMEOUT_MS, working);
    if (!isInTime) throw new LedgerUnavailable('the ledger did not respond in time');
    return await working;
  } catch (error) {
    if (!isOutage(error)) throw error;
    throw new LedgerUnavailable('the ledger is unavailable', { cause: error });
  }
}

interface EntryRow {
  readonly provider_id: bigint;
  readonly kind: EffectKind;
  readonly name: string;
  readonly amount: string;
  readonly currency: string;
  readonly due: string;
  readonly idempotency_key: string;
  readonly calls: number;
  readonly additional_details: string;
  readonly created_at: Date;
}

const COLUMNS = `provider_id, kind, name, amount, currency, due, idempotency_key, calls,
  additional_details::text, created_at`;

const PLAN_FAILURE = `
insert into commerce_failures (shop_id, return_id, kind, remaining)
select shop_id, id, $2, $3 from returns where id = $1
on conflict (shop_id, return_id) do update
set kind = excluded.kind, remaining = excluded.remaining`;

const ENTRIES = `
select ${COLUMNS} from commerce_ledger
where shop_id = (select shop_id from returns where id = $1) and return_id = $1
order by provider_id`;

const PAGE_SIZE = 500;

const PAGE = `
select ${COLUMNS} from commerce_ledger
 where shop_id = $1 and created_at >= $2 and created_at < $3 and provider_id > $4
 order by provider_id limit $5`;

const ENTRY = `
select ${COLUMNS} from commerce_ledger where shop_id = $1 and idempotency_key = $2 and kind = $3`;

const NAME_PREFIX = {
  exchange_order: '#EX',
  gift_card: '#GC',
  refund: '#RF',
  restock: '#RS',
  order_cancel: '#CX',
} as const;

async function record(db: Queryable, request: EffectRequest): Promise<EntryRow> {
  const { kind, amount, currency } = request;
  const [shopId, returnId] = [param(request.shopId), param(request.returnId)];
  const items = JSON.stringify(goodsOf(request), (_key, value) =>
    typeof value === 'bigint' ? String(value) : value,
  );
  const due = kind === 'exchange_order' && isDue(request.funding) ? request.funding.due : '0';
  // A planned failure adds no entry. The prefix of the name shows the kind of the order to people.
  const { rows } = await db.query<EntryRow & { readonly failure: FailureKind | null }>(
    named(
      'commerce-place',
      sql`
with failed as (
  update commerce_failures set remaining = remaining - 1
   where shop_id = ${shopId} and return_id = ${returnId} and remaining > 0 returning kind as failure
), placed as (
  insert into commerce_ledger as ledger
    (shop_id, idempotency_key, return_id, kind, name, amount, currency, items, additional_details, due)
  select ${shopId}::bigint, ${request.key}::text, ${returnId}::bigint, ${kind}::text,
    ${`${NAME_PREFIX[kind]}${request.returnId}`}::text, ${amount}::numeric, ${currency}::text, ${items}::json,
    ${JSON.stringify(request.details)}::json, ${due}::numeric
   where not exists (select from failed)
  on conflict (shop_id, idempotency_key) do update set calls = ledger.calls + 1
  returning ${raw(COLUMNS)}
)
select * from failed full join placed on true`,
    ),
  );
  const [row] = rows;
  if (!row) throw new Error('the ledger returned no row');
  const { failure } = row;
  if (failure) throw new CommerceFailure(failure, `planned failure (${failure})`);
  return row;
}

function goodsOf({ kind, items, stock, orderToCancel }: EffectRequest): readonly object[] {
  if (orderToCancel) return [orderToCancel];
  return kind === 'restock' ? stock : items;
}

function effectOf(row: EntryRow): Effect {
  const { provider_id, amount, currency, due } = row;
  const isRefund = row.kind === 'refund';
  return {
    id: String(provider_id),
    name: isOrder(row.kind) ? row.name : '',
    gateway: isRefund ? PROVIDER : '',
    provider: isRefund ? PROVIDER : '',
    amount,
    currency,
    ...(/[1-9]/.test(due) && { due }),
    createdAt: row.created_at,
  };
}

function entry(row: EntryRow): LedgerEntry {
  return {
    id: row.provider_id,
    amount: row.amount,
    currency: row.currency,
    due: row.due,
    idempotencyKey: row.idempotency_key,
    calls: row.calls,
    // `record` wrote this text, so it has this type.
    additionalDetails: parseExactJson(row.additional_details) as AdditionalDetails,
  };
}
