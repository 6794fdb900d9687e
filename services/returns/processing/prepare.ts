import type pg from 'pg';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { GiftCardMode, type Settings } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { allInOrder } from '../../platform/all-in-order.ts';
import { committing, inTransaction, together } from '../../platform/postgres.ts';
import { creditsOf } from '../instant-refunds/instant-refunds-store.ts';
import { loadSettings } from '../settings.ts';
import { loadReturn } from '../store/load.ts';
import { type Job, lockReturnOf } from './jobs.ts';
import { intendSteps, mayHaveFulfilled } from './outcomes.ts';
import { planSteps, type Step } from './plan.ts';
import { EVERY_SHOP, NO_PROVIDER } from './provider-gate.ts';

/** The return may no longer be processed, because something changed after the job was queued, or the job may not. */
export class NotProcessable extends Error {
  override readonly name = 'NotProcessable';
}

export interface Prepared {
  /** Without its lines, which may be many megabytes: they are not kept while the provider is asked. */
  readonly details: Return;
  readonly settings: Settings;
  /** As the shop has it, unless the commerce provider was asked for this return's card before. */
  readonly giftCardsAreExternal: boolean;
  /** What is still missing, in order. */
  readonly steps: readonly Step[];
}

/**
 * Judges once more under the row lock whether the return may be processed, and notes what is about
 * to be asked of the provider.
 *
 * @throws NotProcessable; LeaseLost.
 */
export async function prepare(pool: pg.Pool, job: Job, gate = EVERY_SHOP): Promise<Prepared> {
  return inTransaction(pool, async (tx) => {
    const [, details, credits, settings] = await together(tx, () =>
      allInOrder([
        lockReturnOf(tx, job),
        loadReturn(tx, job.shopId, job.returnId),
        creditsOf(tx, job),
        loadSettings(tx, job.shopId),
      ]),
    );
    if (details?.state !== ReturnState.OPEN) throw new NotProcessable('the return is not open');
    if (credits.hasOpen) throw new NotProcessable('an instant refund is open');
    if (!(await gate.allows(tx, job))) throw new NotProcessable(NO_PROVIDER);
    // A card that the provider issued, or may have, stays with it: one from outside would be a second.
    const giftCardsAreExternal =
      settings.giftCardMode === GiftCardMode.EXTERNAL &&
      !(await mayHaveFulfilled(tx, job, 'gift_card'));
    const wanted = planSteps({
      details,
      giftCardsAreExternal,
      paidMinor: credits.paidMinor(details.presentmentCurrency),
    });
    const steps = await committing(tx, () => intendSteps(tx, job, wanted));
    return { details: { ...details, lineItems: [] }, settings, giftCardsAreExternal, steps };
  });
}
