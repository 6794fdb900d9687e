import type pg from 'pg';
import { z } from 'zod';
import type { Destination } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import {
  type Return,
  ReturnMethod,
  type SubmitReturnRequest,
  SubmitReturnRequestSchema,
  UpsellPayment,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { LabelProvider, type Settings } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { decimalsOf } from '../../platform/currencies.ts';
import { invalidField, stateForbids } from '../../platform/errors.ts';
import {
  findKey,
  idempotencyConflict,
  oncePerKey,
  requestHash,
} from '../../platform/idempotency.ts';
import { callerShape, idempotencyKey, parseInput } from '../../platform/input.ts';
import { netOf } from '../../platform/line-value.ts';
import {
  amountOf,
  type Both,
  bothOf,
  type Currencies,
  requiredAmountOf,
} from '../../platform/money.ts';
import { inTransaction, type Queryable } from '../../platform/postgres.ts';
import { type FindOrderDeps, findOrder, type OrderAnswer } from '../commerce/find-order.ts';
import { elsewhereOf } from '../commerce/remaining.ts';
import { type Destinations, destinationOf } from '../destinations.ts';
import { returnNotFound } from '../errors.ts';
import { issueLabelRequest } from '../labels/label-request-store.ts';
import { requirePaidShipping } from '../money/paid-shipping.ts';
import { checkedSums } from '../money/return-sums.ts';
import {
  EXCHANGE_AMOUNTS,
  type ExchangeSums,
  type LineSums,
  lineSumsFrom,
  requireWithinCost,
} from '../money/totals.ts';
import { pastTime } from '../past.ts';
import { requireReturnable } from '../returnable.ts';
import { loadSettings } from '../settings.ts';
import { appendReturnEvents, type DetailEvent } from '../store/append-events.ts';
import { requireDetailsFit } from '../store/details-size.ts';
import { encodeReturn } from '../store/encoded.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { addTimeline } from '../store/timeline-store.ts';
import { correctTexts } from './correct-texts.ts';
import { lookedUp, needsLookUp } from './look-up.ts';
import { normalRequest } from './normal-request.ts';
import {
  incompleteSubmission,
  type Submission,
  type SubmittedExchange,
  type SubmittedLine,
  submission,
} from './submission.ts';
import { type CheckedSubmission, insertReturn, lineColumns, lockOrderRow } from './submit-store.ts';

export interface SubmitDeps {
  readonly pool: pg.Pool;
  readonly store: ReturnStore;
  readonly destinations: Destinations;
  /** Needed to complete submissions that have the name of the order and not its id. */
  readonly providers: FindOrderDeps['providers'];
}

const keyed = z.object({ ...callerShape, idempotencyKey });

export interface Submitted {
  readonly return: Return;
  readonly repeated: boolean;
  /** Whether the call changed texts of the return of an earlier call. */
  readonly corrected?: boolean;
}

/**
 * Records a new return. It is open, or in review when it is flagged. A repeated call with the same key and content
 * returns the return of the first call in its current state, and `repeated`. A submission with the name of the order
 * and without its id is completed first, see {@link lookedUp}. `correct_texts` is {@link correctTexts}.
 *
 * @throws DomainError INVALID_ARGUMENT; SHOP_NOT_CONFIGURED; IDEMPOTENCY_CONFLICT; RETURN_TOO_LARGE;
 *   LINE_IN_LIVE_RETURN, ORDERED_QUANTITY_EXCEEDED and LINE_ALREADY_REFUNDED, see {@link requireReturnable};
 *   STATE_FORBIDS when the destination is disabled, or the provider has cancelled the order.
 */
export async function submitReturn(
  deps: SubmitDeps,
  request: SubmitReturnRequest,
): Promise<Submitted> {
  const { shopId, idempotencyKey: key } = parseInput(keyed, request);
  const hash = requestHash(SubmitReturnRequestSchema, normalRequest(request));
  const earlierHash = requestHash(SubmitReturnRequestSchema, { ...request, correctTexts: false });
  const use = { shopId, operation: 'SubmitReturn', key, hash, earlierHash };
  // A submission without the id of the order is valid only after the provider has completed it.
  const isIncomplete = needsLookUp(request);
  const whole = isIncomplete ? undefined : parseInput(submission, request);
  const earlier = await findKey(deps.pool, use);
  if (earlier) return repeated(deps, request, { whole, earlier });
  const answer = whole ? undefined : await orderOf(deps, request);
  const settings = await loadSettings(deps.pool, shopId);
  const checkedIn = async (db: Queryable) =>
    check(whole ?? (await completed(db, request, answer)), settings);
  const checked = await checkedIn(deps.pool);
  const input = checked.submission;
  const destination = await destinationOf(deps.destinations, input, input.destinationId);
  if (destination && !destination.enabled) {
    throw stateForbids('the destination is disabled, it takes no returns');
  }
  return inTransaction(deps.pool, async (tx) => {
    const { id, repeated } = await oncePerKey(tx, use, async () => {
      // Complete it again under the lock: another return may have taken units of the order.
      if (!whole) await lockOrderRow(tx, shopId, input.order.providerOrderId);
      const now = whole ? checked : await checkedIn(tx);
      return record(deps.store, tx, { checked: now, settings, destination });
    });
    return { return: await existing(deps.store, tx, { ...input, id }), repeated };
  });
}

/** Answers a call whose key was used. */
async function repeated(
  { pool, store }: SubmitDeps,
  { shopId, correctTexts: corrects }: SubmitReturnRequest,
  o: {
    readonly whole: Submission | undefined;
    readonly earlier: { readonly resultId: bigint; readonly isSame: boolean };
  },
): Promise<Submitted> {
  const { resultId: id, isSame } = o.earlier;
  if (isSame) return { return: await existing(store, pool, { shopId, id }), repeated: true };
  if (!corrects || !o.whole) throw idempotencyConflict();
  const checked = check(o.whole, await loadSettings(pool, shopId));
  const columns = checked.lines.map(({ line }) => lineColumns(line));
  return { ...(await correctTexts(store, id, { checked, columns })), repeated: true };
}

/** Asks the shop's provider for the order of a submission. @throws DomainError INVALID_ARGUMENT; as {@link findOrder}. */
async function orderOf(deps: SubmitDeps, request: SubmitReturnRequest): Promise<OrderAnswer> {
  const { name } = parseInput(incompleteSubmission, request).order;
  return findOrder(deps, { shopId: request.shopId, name });
}

/** @throws DomainError INVALID_ARGUMENT; also as {@link lookedUp} says. */
async function completed(
  db: Queryable,
  request: SubmitReturnRequest,
  answer: OrderAnswer = { looksUp: false, askedAt: '' },
): Promise<Submission> {
  const { shopId } = request;
  const { order, askedAt } = answer;
  const elsewhere = order ? await elsewhereOf(db, { shopId, order, askedAt }) : [];
  return parseInput(submission, lookedUp(request, answer, elsewhere));
}

async function existing(
  store: ReturnStore,
  db: Queryable,
  { shopId, id }: { readonly shopId: bigint; readonly id: bigint },
): Promise<Return> {
  const found = await store.load(db, shopId, id);
  if (!found) throw returnNotFound();
  return found;
}

function check(input: Submission, settings: Settings): CheckedSubmission {
  const currencies = currenciesOf(input, settings);
  const lines = input.lines.map((line, n) => ({ line, sums: lineSums(line, n, currencies) }));
  const exchanges = input.exchanges.map((exchange, n) => ({
    exchange,
    sums: exchangeSums(exchange, n, currencies),
  }));
  const sums = checkedSums({
    outcome: input.outcome,
    currencies,
    lines: lines.map((line) => line.sums),
    exchanges: exchanges.map((exchange) => exchange.sums),
    amounts: input.amounts,
  });
  requireUpsellPayment(input, sums, exchanges);
  const { orderShipping } = input;
  const paidShipping = orderShipping && amountOf('order_shipping', orderShipping, currencies);
  const createdAt = input.submittedAt ? pastTime('submitted_at', input.submittedAt) : new Date();
  return { submission: input, currencies, lines, exchanges, sums, paidShipping, createdAt };
}

/** @throws DomainError INVALID_ARGUMENT for a payment without an upsell, and when only one has a reference. */
function requireUpsellPayment(
  { upsellPayment, upsellPaymentReference: reference }: Submission,
  sums: CheckedSubmission['sums'],
  exchanges: CheckedSubmission['exchanges'],
): void {
  const field = 'upsell_payment_reference';
  if (upsellPayment !== UpsellPayment.PREPAID) {
    if (reference !== '') throw invalidField(field, 'is only for the upsell_payment PREPAID');
    return;
  }
  if (reference.trim() === '') throw invalidField(field, 'is required: which payment was it?');
  const total = exchanges.reduce((sum, { sums: one }) => sum + netOf(one.presentment), 0n);
  if (total > sums.presentment.returnCredit) return;
  throw invalidField('upsell_payment', 'must not be PREPAID: the return credit pays the exchange');
}

function currenciesOf(input: Submission, settings: Settings): Currencies {
  if (input.currency !== settings.currency) {
    throw invalidField('currency', `must be the shop's currency, ${settings.currency}`);
  }
  const presentment = input.presentmentCurrency || input.currency;
  if (decimalsOf(presentment) === undefined) {
    throw invalidField('presentment_currency', 'must be an ISO 4217 currency');
  }
  return { shop: input.currency, presentment };
}

function lineSums(line: SubmittedLine, n: number, currencies: Currencies): Both<LineSums> {
  const at = `lines[${n}]`;
  const sums = lineSumsFrom(at, (name, field) => {
    const read = name === 'price' ? requiredAmountOf : amountOf;
    return read(field, line[name], currencies);
  });
  requireWithinCost(at, sums, currencies);
  return sums;
}

function exchangeSums(
  exchange: SubmittedExchange,
  n: number,
  currencies: Currencies,
): Both<ExchangeSums> {
  return bothOf(EXCHANGE_AMOUNTS, (name) => {
    const read = name === 'price' ? requiredAmountOf : amountOf;
    return read(`exchanges[${n}].${name}`, exchange[name], currencies);
  });
}

async function record(
  store: ReturnStore,
  tx: pg.PoolClient,
  o: {
    readonly checked: CheckedSubmission;
    readonly settings: Settings;
    readonly destination: Destination | undefined;
  },
): Promise<bigint> {
  const { checked } = o;
  const { shopId, actor, flagReasons, returnMethod, upsellPaymentReference } = checked.submission;
  const id = await insertReturn(tx, checked);
  const created = await existing(store, tx, { shopId, id });
  await requireReturnable(tx, created);
  const lines = checked.lines.map(({ sums }, n) => ({ at: `lines[${n}]`, sums }));
  await requirePaidShipping(tx, created, { lines, sums: checked.sums });
  const wantsLabel =
    o.settings.labelProvider === LabelProvider.THIRD_PARTY && returnMethod === ReturnMethod.MAIL;
  const issued = wantsLabel ? await issueLabelRequest(tx, created, o) : undefined;
  const events: DetailEvent[] = [
    { trigger: 'return.created', returnId: id },
    ...(issued ? [issued.event] : []),
  ];
  await addTimeline(tx, checked.submission, [
    {
      returnId: id,
      kind: 'return.submitted',
      text: 'The return was submitted',
      ...(upsellPaymentReference && { facts: { upsell_payment: upsellPaymentReference } }),
    },
    ...(flagReasons.length > 0
      ? [{ returnId: id, kind: 'return.flagged', text: flagReasons.join('; ') }]
      : []),
    ...(issued
      ? [{ returnId: id, kind: 'label.request.issued', text: 'A label was requested' }]
      : []),
  ]);
  const by = { shopId, actor };
  const snapshot = encodeReturn(created);
  requireDetailsFit(created, { encodedBytes: snapshot.bytes.length });
  await appendReturnEvents(
    tx,
    by,
    events.map((event) => ({ ...event, snapshot })),
  );
  return id;
}
