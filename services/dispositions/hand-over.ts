import type { MessageInitShape } from '@bufbuild/protobuf';
import { type Client, Code, ConnectError } from '@connectrpc/connect';
import type pg from 'pg';
import type {
  AssessmentSchema,
  GradingSchema,
  ReturnsService,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { isUnavailable } from '../platform/errors.ts';
import { serviceActor } from '../platform/identity.ts';
import type { Logger } from '../platform/log.ts';
import { isOutage } from '../platform/outage.ts';
import { startLoop, type Worker } from '../platform/worker.ts';
import { deleteInspections, isTooLarge } from './delete-inspections.ts';
import {
  claimDue,
  deleteHandovers,
  findOldestPending,
  HANDOVERS,
  postpone,
  undoAttempt,
} from './handovers.ts';
import { conditionOf, dispositionOf, type Inspection } from './inspection.ts';
import type { Lines } from './store.ts';

export interface HandOverDeps {
  readonly pool: pg.Pool;
  readonly returns: Pick<
    Client<typeof ReturnsService>,
    'checkLineItems' | 'applyAssessments' | 'applyGradings'
  >;
}

/**
 * The actor of dispositions' calls to returns, because only the gateway may name users as actors. Each inspection has
 * its own inspector.
 */
export const DISPOSITIONS = serviceActor('dispositions');

/** Timeout of one call to returns. Thirty line items with the longest texts take about 30 MiB. Milliseconds. */
const TIMEOUT_MS = 10_000;

/**
 * Hands over all pending inspections of these line items to returns, oldest first. It makes one call, or more when a
 * line item has several pending inspections. Safe to repeat, because returns ignores inspections that it already has.
 */
export async function handOver(deps: HandOverDeps, o: Lines): Promise<void> {
  let pending = await findOldestPending(deps.pool, o);
  while (pending.length > 0) {
    await handOverThese(deps, o, pending);
    pending = await findOldestPending(deps.pool, o);
  }
}

/**
 * Hands over these inspections in one call, and then deletes their rows in `handovers`. Each must be the oldest pending
 * inspection of its line item.
 */
export async function handOverThese(
  deps: HandOverDeps,
  o: Pick<Lines, 'shopId' | 'kind'>,
  pending: readonly Inspection[],
): Promise<void> {
  const limits = { timeoutMs: TIMEOUT_MS };
  // `withoutReturns`: the response would otherwise have up to thirty whole returns.
  const call = { shopId: o.shopId, actor: DISPOSITIONS, withoutReturns: true };
  if (o.kind === 'assessment') {
    await deps.returns.applyAssessments(
      { ...call, assessments: pending.map(toAssessment) },
      limits,
    );
  } else {
    await deps.returns.applyGradings({ ...call, gradings: pending.map(toGrading) }, limits);
  }
  const ids = pending.map((inspection) => inspection.id);
  await deleteHandovers(deps.pool, o.shopId, ids);
}

const IDLE_MS = 1_000;

/**
 * Starts the loop that hands over inspections after a crash or an outage. Every process may run it: only one process
 * works on a row at a time, and a repeated handover changes nothing.
 */
export function startHandovers(deps: HandOverDeps, logger: Logger): Worker {
  const heartbeat = HANDOVERS.heartbeat(deps.pool, logger);
  return startLoop({
    name: 'handovers',
    idleMs: IDLE_MS,
    logger,
    step: async () => {
      const due = await claimDue(deps.pool);
      if (!due) return 'idle';
      try {
        const work = () => handOverDue(deps, due, logger);
        await heartbeat.during(due.handovers, { work });
      } catch (error) {
        // If the database is unavailable as well, this statement fails and the lease expires.
        await (isReturnsUnavailable(error) ? undoAttempt : postpone)(deps.pool, due).catch(
          () => {},
        );
        if (isUnavailable(error) || isOutage(error)) throw error;
        // A handover that returns rejected must not delay others. The loop tries it again when it is due.
        logger.error({ err: error, shopId: due.shopId, kind: due.kind }, 'handover rejected');
      }
      return 'again';
    },
  });
}

/**
 * Hands over due inspections. If they would make the details of a return too large, hands over the line items one by
 * one, and deletes the inspections that do not fit. The calls that recorded those did not succeed.
 */
async function handOverDue(deps: HandOverDeps, due: Lines, logger: Logger): Promise<void> {
  try {
    await handOver(deps, due);
  } catch (error) {
    if (!isTooLarge(error)) throw error;
    const [lineItemId, ...rest] = due.lineItemIds;
    if (rest.length > 0) {
      for (const single of due.lineItemIds) {
        await handOverDue(deps, { ...due, lineItemIds: [single] }, logger);
      }
      return;
    }
    const oldest = await findOldestPending(deps.pool, due);
    await deleteInspections(deps.pool, due, oldest);
    const fields = { shopId: due.shopId, kind: due.kind, lineItemId };
    logger.warn(fields, 'inspection deleted: return details would exceed the size limit');
    await handOverDue(deps, due, logger);
  }
}

/** Whether returns was unavailable. A timeout does not count, because the size of the line item may have caused it. */
function isReturnsUnavailable(error: unknown): boolean {
  return isOutage(error) || (error instanceof ConnectError && error.code === Code.Unavailable);
}

function toAssessment(inspection: Inspection): MessageInitShape<typeof AssessmentSchema> {
  return {
    assessmentId: inspection.id,
    lineItemId: inspection.lineItemId,
    disposition: dispositionOf(inspection),
    images: [...inspection.images],
    actor: inspection.actor,
  };
}

function toGrading(inspection: Inspection): MessageInitShape<typeof GradingSchema> {
  return {
    gradingId: inspection.id,
    lineItemId: inspection.lineItemId,
    condition: conditionOf(inspection),
    actor: inspection.actor,
  };
}
