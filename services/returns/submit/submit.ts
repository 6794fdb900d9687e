import type pg from 'pg';
import { z } from 'zod';
import type { Destination } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import {
  PolicyUse,
  type Return,
  ReturnMethod,
  type SubmitReturnRequest,
  SubmitReturnRequestSchema,
  UpsellPayment,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { LabelProvider, type Settings } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  type FindOrderDeps,
  findOrder,
  type OrderAnswer,
  type OrderFinder,
  selectorOf,
} from '../../commerce/find-order.ts';
import { elsewhereOf, goodsLimitOf } from '../../commerce/remaining.ts';
import { allInOrder } from '../../platform/postgres/all-in-order.ts';
import { inTransaction, type Queryable, together } from '../../platform/postgres/postgres.ts';
import { decimalsOf } from '../../platform/values/currencies.ts';
import {
  DomainError,
  invalidField,
  overloaded,
  stateForbids,
} from '../../platform/values/errors.ts';
import {
  findKey,
  idempotencyConflict,
  type KeyUse,
  oncePerKey,
  requestHash,
} from '../../platform/values/idempotency.ts';
import { callerShape, idempotencyKey, parseInput } from '../../platform/values/input.ts';
import { netOf } from '../../platform/values/line-value.ts';
import {
  amountOf,
  type Both,
  bothOf,
  type Currencies,
  requiredAmountOf,
} from '../../platform/values/money.ts';
import { blank, normalForm } from '../../platform/values/text.ts';
import { type Destinations, destinationOf } from '../destinations.ts';
import { returnNotFound } from '../errors.ts';
import { pastTime } from '../fields.ts';
import { issueLabelRequest } from '../labels/label-requests.ts';
import { requirePaidShipping } from '../money/paid-shipping.ts';
import { checkedSums } from '../money/return-sums.ts';
import {
  EXCHANGE_AMOUNTS,
  type ExchangeSums,
  type LineSums,
  lineSumsFrom,
  requireWithinCost,
} from '../money/totals.ts';
import { loadPolicy, type PolicyVersion } from '../policy/policy-store.ts';
import { reviewedFlagReasons } from '../policy/review-submission.ts';
import { requireReturnable } from '../returnable.ts';
import { loadSettings } from '../settings.ts';
import { newStatusLink } from '../status-links.ts';
import { appendReturnEvents, type DetailEvent } from '../store/append-events.ts';
import { requireDetailsFit } from '../store/details-size.ts';
import { encodeReturn } from '../store/encoded.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { addTimeline } from '../store/timeline-store.ts';
import { asNotEligible, findsOrder, madeByPolicy, usesPolicy } from './by-policy.ts';
import { correctTexts } from './correct-texts.ts';
import { lookedUp, needsLookUp } from './look-up.ts';
import {
  foundSubmission,
  incompleteSubmission,
  type Submission,
  type SubmittedExchange,
  type SubmittedLine,
  submission,
} from './submission.ts';
import {
  type CheckedSubmission,
  insertParts,
  insertReturn,
  lineColumns,
  lockOrderRow,
} from './submit-store.ts';

export interface SubmitDeps {
  readonly pool: pg.Pool;
  readonly store: ReturnStore;
  readonly destinations: Destinations;
  /** Needed to complete submissions that have the name of the order and not its id. */
  readonly providers: FindOrderDeps['providers'];
  /** Finds the orders of submissions with `find_order`. */
  readonly orders: OrderFinder;
}

const keyed = z.object({ ...callerShape, idempotencyKey });

interface Submitted {
  readonly return: Return;
  readonly repeated: boolean;
  /** Whether the call changed texts of the return of an earlier call. */
  readonly corrected?: boolean;
}

/**
 * Records a new return. It is open, or in review when it is flagged. A repeated call with the same key and content
 * returns the return of the first call in its current state, and `repeated`. A submission with the name of the order
 * and without its id is completed first, see {@link lookedUp}; one that uses the policy, or `find_order`, as
 * {@link madeByPolicy} says. `correct_texts` is {@link correctTexts}. With `validate_only` nothing stays recorded.
 *
 * @throws DomainError INVALID_ARGUMENT; SHOP_NOT_CONFIGURED; IDEMPOTENCY_CONFLICT; RETURN_TOO_LARGE;
 *   LINE_IN_LIVE_RETURN, ORDERED_QUANTITY_EXCEEDED and LINE_ALREADY_REFUNDED, see {@link requireReturnable};
 *   STATE_FORBIDS when the destination is disabled, or the provider has cancelled the order; NOT_ELIGIBLE,
 *   ORDER_NOT_FOUND, NO_ORDER_LOOKUP and COMMERCE_FAILED.
 */
export async function submitReturn(
  deps: SubmitDeps,
  request: SubmitReturnRequest,
): Promise<Submitted> {
  const { shopId, idempotencyKey: key } = parseInput(keyed, request);
  const hash = requestHash(SubmitReturnRequestSchema, normalRequest(request));
  const use = { shopId, operation: 'SubmitReturn', key, hash };
  // A submission that a provider or the policy completes is valid only afterwards.
  const isIncomplete = needsLookUp(request) || usesPolicy(request);
  const whole = isIncomplete ? undefined : parseInput(submission, request);
  const earlier = await findKey(deps.pool, use);
  if (earlier) return repeated(deps, request, { whole, earlier });
  const settings = await loadSettings(deps.pool, shopId);
  try {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
      const answer = whole ? undefined : await orderOf(deps, request);
      const made = await recorded(deps, request, { whole, answer, settings, use });
      if (made) return made;
    }
    throw overloaded();
  } catch (error) {
    // The first call with this key may have recorded its return while this one asked the provider. Then this one was
    // judged against that return.
    const first = error instanceof DomainError ? await findKey(deps.pool, use) : undefined;
    if (first) return repeated(deps, request, { whole, earlier: first });
    throw error;
  }
}

/** How often the provider is asked again, because the answer became too old while the submission waited. */
const MAX_ATTEMPTS = 3;
/** How old the answer of the provider may be when the return is recorded. Milliseconds. */
const MAX_AGE_MS = 5_000;

/** Records a submission. Undefined when it waited so long that the answer of the provider is too old. */
async function recorded(
  deps: SubmitDeps,
  request: SubmitReturnRequest,
  o: {
    readonly whole: Submission | undefined;
    readonly answer: OrderAnswer | undefined;
    readonly settings: Settings;
    readonly use: KeyUse;
  },
): Promise<Submitted | undefined> {
  const { whole, answer, settings } = o;
  const { shopId } = request;
  const checkedIn = async (db: Queryable) => {
    if (whole) return check(whole, settings);
    const policy = usesPolicy(request) ? await loadPolicy(db, shopId) : undefined;
    const found = answer?.order;
    const { made, goodsLimit } = await completed(db, request, { answer, policy });
    const stated = { ...check(made, settings), goodsLimit };
    return request.policy === PolicyUse.UNSPECIFIED ? stated : { ...stated, policy, found };
  };
  const checked = await checkedIn(deps.pool);
  const input = checked.submission;
  const destination = await destinationOf(deps.destinations, input, input.destinationId);
  if (destination && !destination.enabled) {
    throw stateForbids('the destination is disabled, it takes no returns');
  }
  const isTooOld = () => answer !== undefined && performance.now() - answer.at > MAX_AGE_MS;
  return inTransaction(deps.pool, async (tx) => {
    let made: Return | undefined;
    const { id, repeated } = await oncePerKey(tx, o.use, async () => {
      // Complete it again under the lock: another return may have taken units of the order.
      if (!whole) await lockOrderRow(tx, shopId, input.order.providerOrderId);
      if (isTooOld()) throw new TooOld();
      const now = whole ? checked : await checkedIn(tx);
      made = await record(deps.store, tx, { checked: now, settings, destination });
      return made.id;
    });
    if (request.validateOnly && made) throw new OnlyTried(made);
    return { return: made ?? (await existing(deps.store, tx, { ...input, id })), repeated };
  }).catch((error: unknown) => {
    if (error instanceof TooOld) return undefined;
    if (error instanceof OnlyTried) return { return: error.made, repeated: false };
    throw error;
  });
}

/** Rolls a transaction back that only tried what a submission would do. */
class OnlyTried extends Error {
  override readonly name = 'OnlyTried';
  readonly made: Return;

  constructor(made: Return) {
    super();
    this.made = made;
  }
}

/** The answer of the provider is too old. The transaction is rolled back. */
class TooOld extends Error {
  override readonly name = 'TooOld';
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

/** How old an answer of the provider may be that another request got. Milliseconds. */
const SHARED_MS = 2_000;

/**
 * Asks the shop's provider for the order of a submission. Undefined when the submission states its order.
 *
 * @throws DomainError INVALID_ARGUMENT; as {@link findOrder}.
 */
async function orderOf(
  deps: SubmitDeps,
  request: SubmitReturnRequest,
): Promise<OrderAnswer | undefined> {
  const { shopId, order } = request;
  if (request.statesOrder) await requireNoLookUp(deps, request);
  if (findsOrder(request)) {
    parseInput(foundSubmission, request);
    const { name = '', providerOrderId = 0n } = order ?? {};
    const asked = selectorOf(shopId, { name, providerOrderId }, 'order.');
    return deps.orders.find(asked, { maxAgeMs: SHARED_MS });
  }
  if (!needsLookUp(request)) return undefined;
  const { name } = parseInput(incompleteSubmission, request).order;
  return findOrder(deps, { shopId, name });
}

/** Nobody states prices that the provider knows. @throws DomainError INVALID_ARGUMENT; COMMERCE_FAILED. */
async function requireNoLookUp(
  { orders }: SubmitDeps,
  { shopId, order }: SubmitReturnRequest,
): Promise<void> {
  const { providerOrderId = 0n } = order ?? {};
  const asked = selectorOf(shopId, { name: '', providerOrderId }, 'order.');
  if (!(await orders.find(asked)).looksUp) return;
  throw invalidField(
    'order',
    "must not be given: the shop's commerce platform looks up orders. Send order_name or provider_order_id",
  );
}

/** @throws DomainError INVALID_ARGUMENT; also as {@link lookedUp} and {@link madeByPolicy} say. */
async function completed(
  db: Queryable,
  request: SubmitReturnRequest,
  o: {
    readonly answer: OrderAnswer | undefined;
    /** Present for a submission that uses it. */
    readonly policy: PolicyVersion | undefined;
  },
): Promise<{ readonly made: Submission; readonly goodsLimit: Both<bigint> | undefined }> {
  const { shopId } = request;
  const { answer, policy } = o;
  const { order, askedAt = '' } = answer ?? {};
  const elsewhere = order ? await elsewhereOf(db, { shopId, order, askedAt }) : [];
  const made = policy
    ? madeByPolicy(request, { answer, elsewhere, policy: policy.policy })
    : lookedUp(request, answer ?? { looksUp: false, askedAt, at: 0 }, elsewhere);
  return {
    made: parseInput(submission, made),
    goodsLimit: order && goodsLimitOf(order, elsewhere),
  };
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
): Promise<Return> {
  const checked = withStatusLink(await judged(tx, o.checked), o.settings);
  const { shopId, actor, flagReasons, returnMethod } = checked.submission;
  const inserted = await insertReturn(tx, checked);
  const { id } = inserted;
  const [, created] = await together(tx, () =>
    allInOrder([insertParts(tx, inserted, checked), existing(store, tx, { shopId, id })]),
  );
  await requireReturnable(tx, created).catch((error: unknown) => {
    throw usesPolicy(checked.submission) ? asNotEligible(error, checked.submission.lines) : error;
  });
  const lines = checked.lines.map(({ sums }, n) => ({ at: `lines[${n}]`, sums }));
  await requirePaidShipping(tx, created, { lines, sums: checked.sums });
  const wantsLabel =
    o.settings.labelProvider === LabelProvider.THIRD_PARTY && returnMethod === ReturnMethod.MAIL;
  const issued = wantsLabel ? await issueLabelRequest(tx, created, o) : undefined;
  const events: DetailEvent[] = [
    { trigger: 'return.created', returnId: id },
    ...(issued ? [issued.event] : []),
  ];
  const timeline = [
    submittedEntry(id, checked),
    ...(flagReasons.length > 0
      ? [{ returnId: id, kind: 'return.flagged', text: flagReasons.join('; ') }]
      : []),
    ...(issued
      ? [{ returnId: id, kind: 'label.request.issued', text: 'A label was requested' }]
      : []),
    ...commentsOf(id, checked),
  ];
  const by = { shopId, actor };
  const snapshot = encodeReturn(created);
  requireDetailsFit(created, { encodedBytes: snapshot.bytes.length });
  const announced = events.map((event) => ({ ...event, snapshot }));
  await together(tx, () =>
    allInOrder([
      addTimeline(tx, checked.submission, timeline),
      appendReturnEvents(tx, by, announced),
    ]),
  );
  // The snapshot is of the return as it was submitted. A label is requested after that.
  return issued ? existing(store, tx, { shopId, id }) : created;
}

/** Adds a link to the shop's page for shoppers, unless the submitter gave a link. */
function withStatusLink(checked: CheckedSubmission, { shopperPage }: Settings): CheckedSubmission {
  const isOn = shopperPage !== undefined && shopperPage.handle !== '';
  if (!isOn || checked.submission.statusPageUrl !== '') return checked;
  const { url, token } = newStatusLink(shopperPage.url);
  const submission = { ...checked.submission, statusPageUrl: url };
  return { ...checked, submission, statusToken: token };
}

/** Puts a submission that uses the policy into review when it meets one of the conditions for that. */
async function judged(tx: Queryable, checked: CheckedSubmission): Promise<CheckedSubmission> {
  const { submission: stated, sums, createdAt, currencies, policy } = checked;
  if (!policy) return checked;
  const flags = await reviewedFlagReasons(tx, policy.policy, {
    shopId: stated.shopId,
    email: stated.customer.email,
    createdAt,
    goods: sums.shop.returnTotal,
    currency: currencies.shop,
    lines: stated.lines,
    flagReasons: stated.flagReasons,
  });
  return { ...checked, submission: { ...stated, flagReasons: flags } };
}

/** The first entry of the timeline. */
function submittedEntry(returnId: bigint, { submission: stated, policy }: CheckedSubmission) {
  const overrides = stated.policy === PolicyUse.OVERRIDE;
  return {
    returnId,
    kind: 'return.submitted',
    text: overrides
      ? 'The return was submitted, and the policy was not allowed to refuse it'
      : 'The return was submitted',
    facts: {
      ...(stated.upsellPaymentReference && { upsell_payment: stated.upsellPaymentReference }),
      ...(policy && { policy_version: policy.version.toString() }),
      ...(overrides && { policy_override: 'true' }),
      ...(stated.withdrawalId !== 0n && { withdrawal_id: String(stated.withdrawalId) }),
    },
  };
}

/** The shopper's comments, as entries of the timeline. A redaction deletes them (`retention/redact.ts`). */
function commentsOf(returnId: bigint, { lines }: CheckedSubmission) {
  return lines
    .map(({ line }) => line)
    .filter(({ comment }) => !blank(comment))
    .map(({ comment, lineItemTitle, title, sku }) => ({
      returnId,
      kind: 'return.commented',
      text: `${lineItemTitle || title || sku || 'Line item'}: ${comment}`,
    }));
}

/** Returns a submission whose identities are in their normal form, for the comparison with an earlier one. */
function normalRequest(request: SubmitReturnRequest): SubmitReturnRequest {
  const { order, lines, exchanges } = request;
  return {
    ...request,
    correctTexts: false,
    ...(order && { order: { ...order, name: normalForm(order.name) } }),
    lines: lines.map((line) => ({
      ...line,
      sku: normalForm(line.sku),
      providerLineItemExternalId: normalForm(line.providerLineItemExternalId),
    })),
    exchanges: exchanges.map((one) => ({ ...one, sku: normalForm(one.sku) })),
  };
}
