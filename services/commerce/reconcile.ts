import { Difference_Problem as Problem } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import type { Queryable } from '../platform/postgres/postgres.ts';
import { sameDecimal } from '../platform/values/money.ts';
import { normalForm } from '../platform/values/text.ts';
import {
  CHECK_KEYS,
  CommerceFailure,
  type CommerceProvider,
  type EffectKind,
  type EffectRequest,
  type ListedEffect,
  movesMoney,
} from './provider.ts';
import { isUnknownOutcome } from './unknown-outcomes.ts';

/** A difference between the provider and this service about an effect. */
export interface Difference {
  readonly problem: Problem;
  readonly kind: EffectKind;
  readonly key: string;
  readonly ours: Money | undefined;
  readonly theirs: Money | undefined;
  readonly providerId: string;
}

interface Money {
  readonly value: string;
  readonly currency: string;
}

export interface Reconciliation {
  /** Number of different effects that were compared. */
  readonly compared: number;
  /**
   * Whether the provider can list its effects. If it cannot, only effects that this service has recorded were compared.
   */
  readonly listed: boolean;
  /** The differences, at most {@link MAX_DIFFERENCES}. */
  readonly differences: readonly Difference[];
  readonly total: number;
  /** False when the search stopped because of its time limit. */
  readonly isComplete: boolean;
}

/** Maximum number of differences in a result. */
const MAX_DIFFERENCES = 1_000;
/** Number of this service's effects that are read at a time. */
const PAGE = 500;
const CALL_MS = 12_000;
/** Maximum number of pages. The effects of a day cannot fill as many. */
const MAX_PAGES = 500;
/**
 * A request without an answer is a difference after this time, as a PostgreSQL interval. Processing retries it for less
 * time, unless the shop's setting is longer.
 */
const UNANSWERED_AFTER = '1 hour';

/**
 * Compares the effects of a period by their keys, in both directions: what the provider lists, and what this service
 * has recorded. An effect that the provider does not list is searched for by its key before it counts as missing.
 *
 * Some providers list nothing, so that the search for all effects takes long. A {@link Part} limits the time of the
 * search, and the next part continues it. Each part reads the provider's whole list, so the progress has no results of
 * the list.
 *
 * @param o.to end of the period. Exclusive.
 * @throws CommerceFailure when the provider does not answer.
 */
export async function reconcile(
  db: Queryable,
  commerce: CommerceProvider,
  o: {
    readonly shopId: bigint;
    readonly from: Date;
    readonly to: Date;
  } & Partial<Part>,
): Promise<Reconciliation> {
  const { progress = newProgress(), searchMs = Number.POSITIVE_INFINITY } = o;
  const found = new Differences();
  const compared = new Set<string>();
  const listed = await compareTheirs(db, commerce, { ...o, found, compared });
  const inList = found.total;
  // The parts before did not search for what the provider listed then. So the search begins again.
  if (progress.listed !== listed) Object.assign(progress, newProgress(), { listed });
  const until = performance.now() + searchMs;
  const isComplete = await compareOurs(db, commerce, { ...o, found, compared, progress, until });
  return {
    compared: compared.size + found.strangers + progress.searched,
    listed,
    differences: found.list,
    total: inList + progress.differences,
    isComplete,
  };
}

class Differences {
  readonly list: Difference[] = [];
  total = 0;
  /** Number of listed effects that this service does not know. Their keys are not kept: there may be very many. */
  strangers = 0;

  add(difference: Difference): void {
    this.total += 1;
    if (this.list.length < MAX_DIFFERENCES) this.list.push(difference);
  }
}

interface Comparing {
  readonly shopId: bigint;
  readonly from: Date;
  readonly to: Date;
  readonly signal?: AbortSignal;
  readonly found: Differences;
  /** The names of listed effects of this service that were compared. */
  readonly compared: Set<string>;
}

interface Searching extends Comparing {
  readonly progress: Progress;
  /** When the search stops, by the monotonic clock. */
  readonly until: number;
}

/** Compares what the provider lists. Returns false when the provider cannot list its effects. */
async function compareTheirs(
  db: Queryable,
  commerce: CommerceProvider,
  { shopId, from, to, signal: stopping, found, compared }: Comparing,
): Promise<boolean> {
  let cursor = '';
  const cursors = new Set<string>();
  do {
    if (cursors.has(cursor) || cursors.size >= MAX_PAGES) {
      throw new CommerceFailure('passing', 'the pages of effect.list do not end');
    }
    cursors.add(cursor);
    stopping?.throwIfAborted();
    const signal = AbortSignal.timeout(CALL_MS);
    const page = await commerce.list({ shopId, from, to, cursor }, signal);
    if (!page) return false;
    const own = await ownByKey(db, shopId, page.effects);
    const merchants = await merchantsRefunds(db, shopId, page.effects);
    for (const theirs of page.effects) {
      if (theirs.key.startsWith(CHECK_KEYS)) continue;
      const ours = own.get(nameOf(theirs));
      if (!ours && merchants.has(theirs.id)) continue;
      // The effect was requested, and the answer may still arrive. `compareOurs` decides about it.
      if (ours?.isUnknown) continue;
      const isRepeated = compared.has(nameOf(theirs));
      // The provider rejected the request, or a person recorded that it had no effect.
      const expected = ours?.done ? ours : undefined;
      const difference = compare(expected, theirs) ?? (isRepeated ? repeated(theirs) : undefined);
      if (difference) found.add(difference);
      if (ours) compared.add(nameOf(theirs));
      else found.strangers += 1;
    }
    cursor = page.cursor;
  } while (cursor !== '');
  return true;
}

function repeated(theirs: ListedEffect): Difference {
  const { kind, key, id: providerId } = theirs;
  const money = moneyOf(theirs);
  return { kind, key, providerId, problem: Problem.DUPLICATE, ours: money, theirs: money };
}

function compare(ours: Own | undefined, theirs: ListedEffect): Difference | undefined {
  const { kind, key, id: providerId } = theirs;
  const common = { kind, key, providerId, theirs: moneyOf(theirs) };
  if (!ours) return { ...common, problem: Problem.UNEXPECTED, ours: undefined };
  if (normalForm(ours.providerId ?? '') !== normalForm(providerId)) {
    return { ...common, problem: Problem.DUPLICATE, ours: moneyOf(ours) };
  }
  if (isSame(ours, theirs)) return undefined;
  return { ...common, problem: Problem.AMOUNT, ours: moneyOf(ours) };
}

/** Searches for effects that the provider did not list. Returns false when it stopped because of the time limit. */
async function compareOurs(
  db: Queryable,
  commerce: CommerceProvider,
  { shopId, from, to, signal, found, compared, progress, until }: Searching,
): Promise<boolean> {
  for (;;) {
    const after = [progress.returnId, progress.kind];
    const { rows } = await db.query<Own>(OWN_PAGE, [shopId, from, to, ...after, PAGE]);
    for (const ours of rows) {
      signal?.throwIfAborted();
      if (!compared.has(nameOf(ours)) && isFindable(commerce, ours)) {
        const difference = await searchFor(commerce, ours, shopId);
        if (difference) found.add(difference);
        progress.differences += difference ? 1 : 0;
        progress.searched += 1;
      }
      progress.returnId = ours.returnId;
      progress.kind = ours.kind;
      if (performance.now() >= until) return false;
    }
    if (rows.length < PAGE) return true;
  }
}

/** Whether the provider can find effects of this kind. If it cannot, each of them would count as missing. */
function isFindable(commerce: CommerceProvider, { kind, done }: Own): boolean {
  return !done || commerce.repeatableForMs?.[kind] === undefined;
}

/** Searches at the provider for an effect that it did not list. */
async function searchFor(
  commerce: CommerceProvider,
  ours: Own,
  shopId: bigint,
): Promise<Difference | undefined> {
  const { kind, key, done } = ours;
  const theirs = await commerce.find(requestOf(shopId, ours), AbortSignal.timeout(CALL_MS));
  const about = { kind, key, ours: moneyOf(ours) };
  if (!theirs) {
    if (ours.isReported) return undefined;
    const problem = done ? Problem.MISSING : Problem.UNANSWERED;
    return { ...about, problem, theirs: undefined, providerId: ours.providerId ?? '' };
  }
  if (done && isSame(ours, theirs)) return undefined;
  const problem = done ? Problem.AMOUNT : Problem.UNANSWERED;
  return { ...about, problem, theirs: moneyOf(theirs), providerId: theirs.id };
}

interface Own {
  readonly returnId: bigint;
  readonly kind: EffectKind;
  readonly key: string;
  readonly amount: string;
  readonly currency: string;
  readonly done: boolean;
  readonly isUnknown: boolean;
  /** Whether it is a refund that the provider has reported, by its id. A person may have made it without the key. */
  readonly isReported: boolean;
  readonly providerId: string | null;
  readonly providerOrderId: bigint;
  readonly orderName: string;
  /** The exchange order that an `order_cancel` has cancelled; null for other kinds. */
  readonly cancelledId: bigint | null;
  readonly cancelledName: string | null;
}

const OWN_COLUMNS = `o.return_id as "returnId", o.kind, o.key, o.amount, o.currency,
  o.done_at is not null as done, ${isUnknownOutcome('o')} as "isUnknown",
  o.kind = 'refund' and exists (
    select from inbound_refunds f
     where f.shop_id = o.shop_id and f.provider_refund_id = o.provider_id
       and f.amount = o.amount and f.currency = o.currency) as "isReported",
  o.provider_id as "providerId",
  t.provider_order_id as "providerOrderId", r.order_name as "orderName",
  x.provider_id::bigint as "cancelledId", x.name as "cancelledName"`;

const OWN_TABLES = `processing_outcomes o
  join returns r on r.shop_id = o.shop_id and r.id = o.return_id
  join orders t on t.shop_id = r.shop_id and t.id = r.order_id
  left join processing_outcomes x on o.kind = 'order_cancel'
    and x.shop_id = o.shop_id and x.return_id = o.return_id and x.kind = 'exchange_order'`;

const OWN_PAGE = `
select ${OWN_COLUMNS}
  from ${OWN_TABLES}
 where o.shop_id = $1 and (o.return_id, o.kind) > ($4, $5)
   and (o.done_at >= $2 and o.done_at < $3
     or o.done_at is null and o.asked_at >= $2 and o.asked_at < $3
       and o.asked_at < now() - interval '${UNANSWERED_AFTER}')
 order by o.return_id, o.kind limit $6`;

const OWN_BY_KEY = `
select ${OWN_COLUMNS}
  from ${OWN_TABLES}
 where o.shop_id = $1 and o.key = any($2::text[])`;

async function ownByKey(
  db: Queryable,
  shopId: bigint,
  effects: readonly ListedEffect[],
): Promise<ReadonlyMap<string, Own>> {
  const { rows } = await db.query<Own>(OWN_BY_KEY, [shopId, effects.map(({ key }) => key)]);
  return new Map(rows.map((row) => [nameOf(row), row]));
}

/** Prefix of all keys of this service. */
const OWN_KEYS = 'rms:';

/**
 * Returns the ids of those listed refunds that the merchant's platform has reported as the merchant's own. A refund
 * with a key of this service is never a refund of the merchant.
 */
async function merchantsRefunds(
  db: Queryable,
  shopId: bigint,
  effects: readonly ListedEffect[],
): Promise<ReadonlySet<string>> {
  const ids = effects
    .filter(({ kind, key }) => kind === 'refund' && !key.startsWith(OWN_KEYS))
    .map(({ id }) => id);
  if (ids.length === 0) return new Set();
  const { rows } = await db.query<{ id: string }>(
    `select provider_refund_id as id from inbound_refunds
      where shop_id = $1 and provider_refund_id = any($2::text[])`,
    [shopId, ids],
  );
  return new Set(rows.map(({ id }) => id));
}

const nameOf = ({ kind, key }: { kind: EffectKind; key: string }): string => `${kind} ${key}`;

function moneyOf({ amount, currency }: { amount: string; currency: string }): Money {
  return { value: amount, currency };
}

function isSame(one: Own, other: { amount: string; currency: string }): boolean {
  if (!movesMoney(one.kind)) return true;
  return one.currency === other.currency && sameDecimal(one.amount, other.amount);
}

function requestOf(shopId: bigint, own: Own): EffectRequest {
  const { kind, key, returnId, amount, currency, providerOrderId, orderName } = own;
  const { cancelledId: id, cancelledName: name } = own;
  const orderToCancel = id === null ? undefined : { id, name: name ?? '' };
  const nothing = { items: [], lines: [], stock: [], details: {} };
  return {
    shopId,
    returnId,
    providerOrderId,
    orderName,
    kind,
    key,
    amount,
    currency,
    orderToCancel,
    ...nothing,
  };
}

/** A day of a shop. */
export interface ShopDay {
  readonly shopId: bigint;
  /** UTC day, as YYYY-MM-DD. */
  readonly day: string;
}

/**
 * How far the search for the effects of this service has come, and its results up to there. The search updates it after
 * each effect, so that it is right even when the provider then fails.
 */
export interface Progress {
  /** Return and kind of the last effect, in the order of the search; `0` and empty before the first one. */
  returnId: bigint;
  kind: string;
  /** Whether the provider listed its effects. */
  listed: boolean;
  /** Number of effects that were searched for, and of differences among them. */
  searched: number;
  differences: number;
}

/** A part of a comparison that takes long. */
export interface Part {
  readonly signal: AbortSignal;
  /** Where the search for this service's effects continues. The search updates it. */
  readonly progress: Progress;
  /** Time limit of the search. It compares at least one effect. Milliseconds. */
  readonly searchMs: number;
}

export function newProgress(): Progress {
  return { returnId: 0n, kind: '', listed: false, searched: 0, differences: 0 };
}

/** Records that a try begins. Returns the progress of earlier tries of the same day. */
export async function beginTry(db: Queryable, { shopId, day }: ShopDay): Promise<Progress> {
  const { rows } = await db.query<Progress & { readonly isSameDay: boolean }>(
    `insert into commerce_comparisons as last (shop_id, day) values ($1, $2::date)
     on conflict (shop_id) do update set tried_at = now()
     returning day = $2::date as "isSameDay", coalesce(return_id, 0) as "returnId", kind, listed, searched,
               differences`,
    [shopId, day],
  );
  const [last] = rows;
  if (!last?.isSameDay) return newProgress();
  const { isSameDay: _, ...progress } = last;
  return progress;
}

/** Stores the progress of a try. Position and results are one row, so that no difference is lost or counted twice. */
export async function saveProgress(
  db: Queryable,
  { shopId, day }: ShopDay,
  { returnId, kind, listed, searched, differences }: Progress,
): Promise<void> {
  await db.query(
    `update commerce_comparisons
        set day = $2::date, return_id = nullif($3::bigint, 0), kind = $4, listed = $5, searched = $6, differences = $7
      where shop_id = $1`,
    [shopId, day, returnId, kind, listed, searched, differences],
  );
}
