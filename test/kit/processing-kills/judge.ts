import { deepStrictEqual } from 'node:assert/strict';
import type pg from 'pg';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { LedgerEntry } from '../../../services/commerce/embedded.ts';
import { type EffectRequest, movesMoney } from '../../../services/commerce/provider.ts';
import { effectKey, LOCATION, reload, timelineOf, triggersOf } from '../services/processing.ts';
import type { JudgedProvider } from './endpoint.ts';
import type { Scenario } from './scenarios.ts';

export interface Evidence {
  readonly commerce: Pick<JudgedProvider, 'ordersOf'>;
  /** Every request to the provider, repetitions included. Undefined when the test did not record them. */
  readonly requests?: readonly EffectRequest[];
  readonly scenario: Scenario;
  readonly of: Return;
}

/**
 * Asserts that a return is closed, or cancelled if the scenario says so. Asserts that each effect at the provider
 * exists once under its key, that each event was sent once, and that the details match.
 *
 * @throws AssertionError with actual and expected values.
 */
export async function judge(pool: pg.Pool, evidence: Evidence): Promise<void> {
  const { scenario, of } = evidence;
  const expected = await expectedEffects(pool, evidence);
  const ledger = await evidence.commerce.ordersOf(of.id);
  const effects = [...ledger.orders, ...ledger.giftCards, ...ledger.refunds];
  deepStrictEqual(effects.map(effectOf), expected, 'effects at the provider');
  const due = scenario.order === undefined ? [] : [Number(scenario.due ?? 0)];
  deepStrictEqual(
    ledger.orders.map((order) => Number(order.due)),
    due,
    'what the shopper is asked to pay',
  );
  const restocks = ledger.restocks.map(({ idempotencyKey }) => idempotencyKey);
  const isRestocked = scenario.restocked !== undefined;
  const key = await effectKey(pool, of, 'restock');
  deepStrictEqual(restocks, isRestocked ? [key] : [], 'restocks at the provider');
  const cancelled = ledger.cancellations.map(({ idempotencyKey }) => idempotencyKey);
  const cancelKey = await effectKey(pool, of, 'order_cancel');
  deepStrictEqual(cancelled, scenario.cancelled ? [cancelKey] : [], 'cancellations');
  if (evidence.requests) {
    const isRestock = ({ kind }: EffectRequest) => kind === 'restock';
    const sent = new Set(evidence.requests.filter(({ kind }) => movesMoney(kind)).map(effectOf));
    deepStrictEqual([...sent].toSorted(), expected.toSorted(), 'keys and amounts of the requests');
    const asked = evidence.requests.flatMap(({ orderToCancel }) => orderToCancel?.id ?? []);
    const own = scenario.cancelled ? ledger.orders.map(({ id }) => id) : [];
    deepStrictEqual([...new Set(asked)], own, 'orders of the requests to cancel');
    const stock = new Set(evidence.requests.filter(isRestock).map(stockOf));
    const goods = `${key}: ${scenario.restocked} of variant 5 at ${LOCATION}`;
    deepStrictEqual([...stock], isRestocked ? [goods] : [], 'goods of the requests');
  }

  const closed = await reload(pool, of);
  const state = scenario.cancelled ? ReturnState.CANCELLED : ReturnState.CLOSED;
  deepStrictEqual(closed.state, state, 'the state');
  deepStrictEqual(closed.processing, false, 'processing');
  deepStrictEqual(
    {
      orders: closed.exchangeOrders.map((order) => order.id),
      giftCard: closed.giftCardOrder?.id,
      refunds: closed.refunds.length,
    },
    {
      orders: ledger.orders.map((order) => order.id),
      giftCard: ledger.giftCards[0]?.id,
      refunds: ledger.refunds.length,
    },
    'details',
  );
  await judgeEvents(pool, evidence);
  await judgeTimeline(pool, evidence);
  const { rowCount } = await pool.query(
    "select from processing_jobs where shop_id = $1 and return_id = $2 and state in ('queued', 'running')",
    [of.shopId, of.id],
  );
  deepStrictEqual(rowCount, 0, 'unfinished jobs');
}

async function judgeEvents(pool: pg.Pool, { scenario, of }: Evidence): Promise<void> {
  const triggers = await triggersOf(pool, of);
  const failed = triggers.filter((trigger) => trigger === 'return.processing.failed').length;
  const notified = triggers.filter((trigger) => trigger !== 'return.processing.failed');
  // `return.updated` shows the results of a run that failed later. A killed process may not have sent its failure.
  const listed = notified.filter((trigger) => trigger !== 'return.updated');
  deepStrictEqual(
    listed.toSorted(),
    [...(scenario.cancelled ? [] : ['return.closed']), ...(scenario.requests ?? [])].toSorted(),
    'events',
  );
  // Each run that the provider rejected has failed.
  if (scenario.cancelled) return;
  const planned = scenario.failure?.kind === 'final' ? scenario.failure.times : 0;
  if (failed > planned) throw new Error(`return.processing.failed was sent ${failed} times`);
}

async function judgeTimeline(pool: pg.Pool, { scenario, of }: Evidence): Promise<void> {
  const kinds = (await timelineOf(pool, of)).map(({ kind }) => kind);
  const count = (kind: string) => kinds.filter((one) => one === kind).length;
  const seen = {
    order: count('return.processing.exchange_order'),
    giftCard: count('return.processing.gift_card'),
    refund: count('return.processing.refund'),
    restock: count('return.processing.restock'),
    closed: count('return.closed'),
    order_cancel: count('return.processing.order_cancel'),
    cancelled: count('return.cancelled'),
  };
  const { order, giftCard, refund, restocked, cancelled } = scenario;
  const once = (amount: string | number | undefined) => (amount === undefined ? 0 : 1);
  deepStrictEqual(
    seen,
    {
      order: once(order),
      giftCard: once(giftCard),
      refund: once(refund),
      restock: once(restocked),
      closed: cancelled ? 0 : 1,
      order_cancel: cancelled ? 1 : 0,
      cancelled: cancelled ? 1 : 0,
    },
    'timeline entries',
  );
}

async function expectedEffects(pool: pg.Pool, { scenario, of }: Evidence): Promise<string[]> {
  const amounts = {
    exchange_order: scenario.order,
    gift_card: scenario.giftCard,
    refund: scenario.refund,
  };
  const expected: string[] = [];
  for (const [kind, amount] of Object.entries(amounts)) {
    if (amount !== undefined) expected.push(`${await effectKey(pool, of, kind)} ${amount}`);
  }
  return expected;
}

function stockOf({ key, stock }: EffectRequest): string {
  const goods = stock.map(
    (one) => `${one.quantity} of variant ${one.variantId} at ${one.locationId}`,
  );
  return `${key}: ${goods.join(', ')}`;
}

function effectOf(one: LedgerEntry | EffectRequest): string {
  const key = 'key' in one ? one.key : one.idempotencyKey;
  return `${key} ${one.amount} ${one.currency}`;
}
