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
import { claimDue, deleteHandovers, findOldestPending, giveBack } from './handovers.ts';
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

/** Only the gateway names people: who inspected stands in each inspection. */
export const DISPOSITIONS = serviceActor('dispositions');

/** Thirty lines with everything at its longest are some 30 MiB. Milliseconds. */
const TIMEOUT_MS = 10_000;

/**
 * Hands everything that is pending for these lines to returns, oldest first: one call as a rule,
 * more when a line has several pending. Safe to run twice: returns ignores ids it has seen.
 */
export async function handOver(deps: HandOverDeps, o: Lines): Promise<void> {
  let pending = await findOldestPending(deps.pool, o);
  while (pending.length > 0) {
    await handOverThese(deps, o, pending);
    pending = await findOldestPending(deps.pool, o);
  }
}

/**
 * Hands over these inspections in one call, and forgets that they are pending. Of one line it must be
 * the oldest pending one.
 */
export async function handOverThese(
  deps: HandOverDeps,
  o: Pick<Lines, 'shopId' | 'kind'>,
  pending: readonly Inspection[],
): Promise<void> {
  const limits = { timeoutMs: TIMEOUT_MS };
  // Thirty lines may lie in thirty whole returns, of which nothing is wanted here.
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
 * Repeats the handovers that a crash or an outage left out. Every replica may run it: a row is
 * worked on by one of them at a time, and the work may be done twice.
 */
export function startHandovers(deps: HandOverDeps, logger: Logger): Worker {
  return startLoop({
    name: 'handovers',
    idleMs: IDLE_MS,
    logger,
    step: async () => {
      const due = await claimDue(deps.pool);
      if (!due) return 'idle';
      try {
        await handOverDue(deps, due, logger);
      } catch (error) {
        // Where our own database is away too, the claim runs out by itself.
        if (isAway(error)) await giveBack(deps.pool, due).catch(() => {});
        if (isUnavailable(error) || isOutage(error)) throw error;
        // One shop's refused line must not pause the handovers of all: it comes again when due.
        logger.error({ err: error, shopId: due.shopId, kind: due.kind }, 'handover refused');
      }
      return 'again';
    },
  });
}

/**
 * Hands over what is due. Where the details of a return would be too large the lines go one by one, and
 * what has no room is withdrawn: the call that recorded it never succeeded.
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

/** Whether returns was away. What takes returns too long counts as a try: it may be the line's own doing. */
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
