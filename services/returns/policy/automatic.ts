import { create } from '@bufbuild/protobuf';
import { ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { AutomaticProcessing_MomentSchema } from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Providers } from '../../commerce/providers.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { systemActor } from '../../platform/security/identity.ts';
import { enumText } from '../../platform/values/enum-text.ts';
import { queueJob } from '../processing/jobs.ts';
import { lockRuleInput, resultWithoutQueueing } from '../processing/process.ts';
import { processesAt } from './policy.ts';
import { loadAutomaticProcessing } from './policy-store.ts';

/**
 * Queues a return for processing if its policy says so, in the transaction of the change after which it is called.
 *
 * @returns whether it was queued.
 */
export type AutomaticProcess = (tx: Queryable, details: Return) => Promise<boolean>;

/** The `source` of jobs that a policy queued. */
export const POLICY_SOURCE = 'policy';

const momentText = enumText(AutomaticProcessing_MomentSchema);
const actor = create(ActorSchema, systemActor('policy'));

/**
 * Creates what processes returns by the policy that judged them, not by the newest one. The stores call it after each
 * change of a return, so it does not matter which change reaches the moment: a carrier update, an arrival, a grading,
 * an edit, or the end of a review. A policy queues a return at most once, and never one that a person queued before: what
 * remains after a failed run is for people. As in `processReturn`, nothing is queued that could not be processed now.
 */
export function automaticProcessing(providers: Providers): AutomaticProcess {
  return async (tx, details) => {
    const { shopId, id: returnId, policyVersion: version, state } = details;
    if (!version || state !== ReturnState.OPEN || details.processing) return false;
    const rule = await loadAutomaticProcessing(tx, { shopId, version });
    if (!rule || !processesAt(rule, details)) return false;
    const current = await lockRuleInput(tx, { shopId, returnId });
    if (current.wasQueued || resultWithoutQueueing(current)) return false;
    if (!(await providers.of(tx, { shopId, returnId, isCheck: true }))) return false;
    const moment = momentText.toText(rule.moment);
    const job = { shopId, returnId, details: {}, source: POLICY_SOURCE, actor };
    await queueJob(
      tx,
      { ...job, isCancellation: false },
      {
        returnId,
        kind: 'return.processing.queued',
        text: `Processing was requested by the policy: ${MOMENTS[moment] ?? moment}`,
        facts: {
          rule: `process: ${moment}`,
          ...(rule.upTo !== '' && { up_to: `${rule.upTo} ${details.currency}` }),
          policy_version: version.toString(),
        },
      },
    );
    return true;
  };
}

/** For each moment, what has happened. */
const MOMENTS: Readonly<Record<string, string>> = {
  in_transit: 'the parcel is in transit',
  delivered: 'the parcel was delivered',
  arrived: 'all units have arrived',
  graded: 'all line items are graded',
};
