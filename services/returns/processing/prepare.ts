import type pg from 'pg';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { GiftCardMode, type Settings } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { inTransaction } from '../../platform/postgres.ts';
import { hasOpenCredit, paidMinor } from '../instant-refunds/instant-refunds-store.ts';
import { loadSettings } from '../settings.ts';
import { loadReturn } from '../store/load.ts';
import { type Job, renewLease } from './jobs.ts';
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
    await tx.query({
      name: 'processing-lock',
      text: 'select from returns where shop_id = $1 and id = $2 for update',
      values: [job.shopId, job.returnId],
    });
    await renewLease(tx, job);
    const details = await loadReturn(tx, job.shopId, job.returnId);
    if (details?.state !== ReturnState.OPEN) throw new NotProcessable('the return is not open');
    if (await hasOpenCredit(tx, job)) throw new NotProcessable('an instant refund is open');
    if (!(await gate.allows(tx, job))) throw new NotProcessable(NO_PROVIDER);
    const settings = await loadSettings(tx, job.shopId);
    // A card that the provider issued, or may have, stays with it: one from outside would be a second.
    const giftCardsAreExternal =
      settings.giftCardMode === GiftCardMode.EXTERNAL &&
      !(await mayHaveFulfilled(tx, job, 'gift_card'));
    const wanted = planSteps({
      details,
      giftCardsAreExternal,
      paidMinor: await paidMinor(tx, job, details.presentmentCurrency),
    });
    const steps = await intendSteps(tx, job, wanted);
    return { details: { ...details, lineItems: [] }, settings, giftCardsAreExternal, steps };
  });
}
