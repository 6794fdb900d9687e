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
import {
  claimDue,
  deleteHandovers,
  findOldestPending,
  giveBack,
  HANDOVERS,
  postpone,
} from './handovers.ts';
import { conditionOf, dispositionOf, type Inspection } from './inspection.ts';
import type { Lines } from './store.ts';
import { isTooLarge, withdraw } from './withdraw.ts';

export interface HandOverDeps {
  readonly pool: pg.Pool;
  readonly returns: Pick<
    Client<typeof ReturnsService>,
    'checkLineItems' | 'applyAssessments' | 'applyGradings'
  >;
}

/** Only the gateway names people as actors. Each inspection has its own inspector. */
export const DISPOSITIONS = serviceActor('dispositions');

/** Thirty lines with the longest texts take about 30 MiB. Milliseconds. */
const TIMEOUT_MS = 10_000;

/**
 * Hands over all pending inspections of these lines to returns, oldest first. Usually this is one call; more when a
 * line has several pending inspections. Safe to run twice, because returns ignores ids that it has.
 */
export async function handOver(deps: HandOverDeps, o: Lines): Promise<void> {
  let pending = await findOldestPending(deps.pool, o);
  while (pending.length > 0) {
    await handOverThese(deps, o, pending);
    pending = await findOldestPending(deps.pool, o);
  }
}

/**
 * Hands over these inspections in one call, and deletes their handovers. An inspection must be the oldest pending one
 * of its line.
 */
export async function handOverThese(
  deps: HandOverDeps,
  o: Pick<Lines, 'shopId' | 'kind'>,
  pending: readonly Inspection[],
): Promise<void> {
  const limits = { timeoutMs: TIMEOUT_MS };
  // The answer would have up to thirty whole returns, which are not needed here.
  const by = { shopId: o.shopId, actor: DISPOSITIONS, withoutReturns: true };
  if (o.kind === 'assessment') {
    await deps.returns.applyAssessments({ ...by, assessments: pending.map(toAssessment) }, limits);
  } else {
    await deps.returns.applyGradings({ ...by, gradings: pending.map(toGrading) }, limits);
  }
  const ids = pending.map((inspection) => inspection.id);
  await deleteHandovers(deps.pool, o.shopId, ids);
}

const IDLE_MS = 1_000;

/**
 * Repeats the handovers that a crash or an outage prevented. Every replica may run it: only one works on a row at a
 * time, and a repeated handover does no harm.
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
        // If our own database is unavailable, too, the lease ends by itself.
        await (isAway(error) ? giveBack : postpone)(deps.pool, due).catch(() => {});
        if (isUnavailable(error) || isOutage(error)) throw error;
        // A refused line of one shop must not delay the handovers of others. The job retries it when it is due.
        logger.error({ err: error, shopId: due.shopId, kind: due.kind }, 'handover refused');
      }
      return 'again';
    },
  });
}

/**
 * Hands over due inspections. When the details of a return would become too large, hands over the lines one by one, and
 * withdraws inspections that do not fit. The call that recorded them did not succeed.
 */
async function handOverDue(deps: HandOverDeps, due: Lines, logger: Logger): Promise<void> {
  try {
    await handOver(deps, due);
  } catch (error) {
    if (!isTooLarge(error)) throw error;
    const [lineItemId, ...others] = due.lineItemIds;
    if (others.length > 0) {
      for (const one of due.lineItemIds) {
        await handOverDue(deps, { ...due, lineItemIds: [one] }, logger);
      }
      return;
    }
    const oldest = await findOldestPending(deps.pool, due);
    await withdraw(deps.pool, due, oldest);
    const fields = { shopId: due.shopId, kind: due.kind, lineItemId };
    logger.warn(fields, 'inspection withdrawn: the details of its return would be too large');
    await handOverDue(deps, due, logger);
  }
}

/** Whether returns was unavailable. A timeout does not count as an outage, because the line itself may be the cause. */
function isAway(error: unknown): boolean {
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
