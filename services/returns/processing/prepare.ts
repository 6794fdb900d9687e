import type pg from 'pg';
import {
  type LineItem,
  type Return,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { GiftCardMode, RestockMode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { CommerceProvider, RestockLine, ReturnedLine } from '../../commerce/provider.ts';
import { NO_PROVIDER } from '../../commerce/provider.ts';
import type { Providers } from '../../commerce/providers.ts';
import { allInOrder, ifNeeded } from '../../platform/postgres/all-in-order.ts';
import {
  committing,
  inTransaction,
  type Queryable,
  together,
} from '../../platform/postgres/postgres.ts';
import { type FeeRule, type PaidUnits, paidPart } from '../arrivals/paid-part.ts';
import {
  EXCHANGE_TEXT,
  feeRuleOf,
  isLess,
  NOTHING_PAYABLE_TEXT,
  unitsToPay,
} from '../arrivals/paid-part-store.ts';
import { instantRefundsOf } from '../instant-refunds/instant-refunds-store.ts';
import type { KnownOfOrder } from '../money/money-limit.ts';
import { findObstacleThere, knownBeforePayment } from '../returnable.ts';
import { loadSettings } from '../settings.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { intendSteps, mayHaveFulfilled } from './effect-store.ts';
import { type Job, type LockedReturn, lockReturnOf } from './jobs.ts';
import { NotProcessable, planSteps, type Step } from './plan.ts';
import { restockLines } from './restock.ts';

export interface PrepareDeps {
  readonly pool: pg.Pool;
  readonly store: ReturnStore;
  readonly providers: Providers;
}

export interface Prepared {
  /**
   * The return without its line items. They may be many megabytes, which is too much to keep in memory during calls to
   * the provider.
   */
  readonly details: Return;
  /** The part of the line items that the provider needs. */
  readonly lines: readonly ReturnedLine[];
  /**
   * The goods to restock, for the provider or for `restock.requested`. They do not have the location of the destination
   * yet.
   */
  readonly stock: readonly RestockLine[];
  /** The commerce provider of the shop. */
  readonly commerce: CommerceProvider;
  /** The shop's setting. But it is PROVIDER when the commerce provider has already restocked the goods, or may have. */
  readonly restockMode: RestockMode;
  /**
   * The shop's setting. But it is false when the commerce provider has already issued a gift card for this return, or
   * may have.
   */
  readonly giftCardsAreExternal: boolean;
  /** The units that are paid where the policy pays what arrived. The amounts of `details` and `lines` are for them. */
  readonly units: PaidUnits;
  /** The steps that are not done, in their order. */
  readonly steps: readonly Step[];
}

/**
 * Checks again, under the row lock, whether the return can be processed. Records the steps that the run will request of
 * the provider.
 *
 * @throws NotProcessable; LeaseLost.
 */
export async function prepare(deps: PrepareDeps, job: Job): Promise<Prepared> {
  const { store, providers } = deps;
  const commerceOf = () => providers.of(deps.pool, { ...job, isCheck: true });
  const known = await knownBeforePayment(deps.pool, job, commerceOf);
  return inTransaction(deps.pool, async (tx) => {
    const [locked, announced, instantRefunds, settings, provider] = await together(tx, () =>
      allInOrder([
        lockReturnOf(tx, job),
        store.load(tx, job.shopId, job.returnId),
        instantRefundsOf(tx, job),
        loadSettings(tx, job.shopId),
        ifNeeded(providers.of(tx, { ...job, isCheck: true })),
      ]),
    );
    if (announced?.state !== ReturnState.OPEN) throw new NotProcessable('the return is not open');
    if (instantRefunds.hasOpen) throw new NotProcessable('an instant refund is open');
    if (locked.hasRequests && (await mayHaveFulfilled(tx, job, 'order_cancel'))) {
      throw new NotProcessable('its exchange order was cancelled, or may have been');
    }
    const units = await unitsToPay(tx, announced, locked);
    const details = isLess(announced, units)
      ? requirePaidPart(announced, units, await feeRuleOf(tx, announced))
      : announced;
    const isPayable = await requirePayable(tx, details, { known, locked });
    // The second look counts and logs the rejection.
    const commerce = provider() ?? (await providers.of(tx, job));
    if (!commerce) throw new NotProcessable(NO_PROVIDER);
    // When the provider has issued a card, or may have, a card of an external provider would be a second card.
    const giftCardsAreExternal =
      settings.giftCardMode === GiftCardMode.EXTERNAL &&
      !(locked.hasRequests && (await mayHaveFulfilled(tx, job, 'gift_card')));
    // When the provider has restocked the goods, or may have, an event would restock them a second time.
    const mayBeRestocked = locked.hasRequests && (await mayHaveFulfilled(tx, job, 'restock'));
    const restockMode = mayBeRestocked ? RestockMode.PROVIDER : settings.restockMode;
    const stock = restockLines(details);
    const planned = planSteps({
      details,
      nonce: locked.nonce,
      giftCardsAreExternal,
      paidMinor: instantRefunds.paidMinor(details.presentmentCurrency),
      hasRestock: restockMode === RestockMode.PROVIDER && stock.length > 0,
    });
    // What came after the look-up is in no limit, so the request is checked again.
    const isKnown = isPayable && locked.news === known.news;
    const newsAtPlan = isKnown ? locked.news : undefined;
    const atPlan = { newsAtPlan, connectionAtPlan: locked.connection };
    const steps = await committing(tx, () => intendSteps(tx, job, { planned, atPlan }));
    const lines = details.lineItems.map(returnedLine);
    const rest = { lines, stock, commerce, restockMode, giftCardsAreExternal, units, steps };
    return { details: { ...details, lineItems: [] }, ...rest };
  });
}

/** Returns a return with only its paid units. @throws NotProcessable when none is, or when the exchange needs more. */
function requirePaidPart(announced: Return, units: PaidUnits, feeFor: FeeRule | undefined): Return {
  if ([...units.values()].every((paid) => paid === 0)) {
    throw new NotProcessable(NOTHING_PAYABLE_TEXT);
  }
  const part = paidPart(announced, units, feeFor);
  if (!part) throw new NotProcessable(EXCHANGE_TEXT);
  return part.details;
}

/**
 * Rejects the run before its first request when the provider has refunded lines itself, or cancelled the order. When an
 * earlier run has requested something, the refund may be the effect of that request. Then each request is checked,
 * after the search for its effect. When a return is submitted, it is checked that its units can be paid, so only later
 * events can stop it; its amounts may have been stated.
 *
 * @returns whether nothing that the provider has reported stops payments; false when each request must be checked.
 * @throws NotProcessable; CommerceFailure as {@link findObstacleThere}.
 */
async function requirePayable(
  tx: Queryable,
  details: Return,
  { known, locked }: { readonly known: KnownOfOrder; readonly locked: LockedReturn },
): Promise<boolean> {
  if (locked.news === 0 && !known.isRefundedThere) return true;
  if (locked.hasRequests) return false;
  const obstacle = await findObstacleThere(tx, details, known);
  if (obstacle) throw new NotProcessable(obstacle.message);
  return true;
}

function returnedLine(line: LineItem): ReturnedLine {
  const { providerLineItemId, sku, quantity } = line;
  const { refund = '0', refundShipping: shipping = '0' } = line.presentmentAmounts ?? {};
  return { providerLineItemId, sku, quantity, refund, shipping };
}
