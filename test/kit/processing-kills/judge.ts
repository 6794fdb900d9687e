import { deepStrictEqual } from 'node:assert/strict';
import type pg from 'pg';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { EmbeddedCommerce, LedgerEntry } from '../../../services/returns/commerce/embedded.ts';
import type { CommerceRequest } from '../../../services/returns/commerce/provider.ts';
import { reload, timelineOf, triggersOf } from '../services/processing.ts';
import type { Scenario } from './scenarios.ts';

export interface Evidence {
  readonly commerce: EmbeddedCommerce;
  /** Every request that was sent to the provider, including repetitions, where that is known. */
  readonly asked?: readonly CommerceRequest[];
  readonly scenario: Scenario;
  readonly of: Return;
}

/**
 * Asserts that a return that was processed through any number of kills is closed, with each effect at the provider
 * exactly once under the same key, each event once, and matching details.
 *
 * @throws AssertionError with actual and expected values.
 */
export async function judge(pool: pg.Pool, evidence: Evidence): Promise<void> {
  const { scenario, of } = evidence;
  const wanted = wantedOf(scenario, of.id);
  const ledger = await evidence.commerce.ordersOf(of.id);
  const effects = [...ledger.orders, ...ledger.giftCards, ...ledger.refunds];
  deepStrictEqual(effects.map(effectOf), wanted, 'effects at the provider');
  if (evidence.asked) {
    const requests = new Set(evidence.asked.map(requestOf));
    deepStrictEqual([...requests].toSorted(), wanted.toSorted(), 'keys and sums asked for');
  }

  const closed = await reload(pool, of);
  deepStrictEqual(closed.state, ReturnState.CLOSED, 'the state');
  deepStrictEqual(closed.processing, false, 'nothing is queued any more');
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
    'what the details show',
  );
  await judgeEvents(pool, evidence);
  await judgeTimeline(pool, evidence);
  const { rowCount } = await pool.query(
    "select from processing_jobs where shop_id = $1 and return_id = $2 and state in ('queued', 'running')",
    [of.shopId, of.id],
  );
  deepStrictEqual(rowCount, 0, 'jobs left');
}

async function judgeEvents(pool: pg.Pool, { scenario, of }: Evidence): Promise<void> {
  const triggers = await triggersOf(pool, of);
  const failed = triggers.filter((trigger) => trigger === 'return.processing.failed').length;
  const notified = triggers.filter((trigger) => trigger !== 'return.processing.failed');
  // A run that failed half done shows its half. The failure itself may be lost with its process.
  const others = notified.filter((trigger) => trigger !== 'return.updated');
  deepStrictEqual(
    others.toSorted(),
    ['return.closed', ...(scenario.requests ?? [])].toSorted(),
    'events',
  );
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
    closed: count('return.closed'),
  };
  const { order, giftCard, refund } = scenario;
  const once = (sum: string | undefined) => (sum === undefined ? 0 : 1);
  deepStrictEqual(
    seen,
    { order: once(order), giftCard: once(giftCard), refund: once(refund), closed: 1 },
    'timeline entries',
  );
}

function wantedOf(scenario: Scenario, returnId: bigint): string[] {
  const sums = {
    exchange_order: scenario.order,
    gift_card: scenario.giftCard,
    refund: scenario.refund,
  };
  return Object.entries(sums).flatMap(([kind, sum]) =>
    sum === undefined ? [] : [`rms:return:${returnId}:${kind} ${sum}`],
  );
}

function effectOf({ idempotencyKey, amount, currency }: LedgerEntry): string {
  return `${idempotencyKey} ${amount} ${currency}`;
}

function requestOf({ idempotencyKey, amount, currency }: CommerceRequest): string {
  return `${idempotencyKey} ${amount} ${currency}`;
}
