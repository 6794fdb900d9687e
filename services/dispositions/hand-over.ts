import { setTimeout as sleep } from 'node:timers/promises';
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
  type Pending,
  postpone,
  undoAttempt,
} from './handovers.ts';
import { conditionOf, dispositionOf, type Inspection } from './inspection.ts';
import { EARLIER_SECONDS, type Lines, OWN_CALL_SECONDS } from './store.ts';

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
const TIMEOUT_MS = OWN_CALL_SECONDS * 1_000;

/** Time limit for the inspections of earlier calls. Milliseconds. */
const EARLIER_MS = EARLIER_SECONDS * 1_000;
const POLL_MS = 50;

/** The inspections of one call, as in `Recorded`. */
type OfCall = Readonly<Record<'inspections' | 'created' | 'repeated', readonly Inspection[]>>;

/**
 * Hands over the pending inspections of these line items that are older than those of a call, oldest first. It never
 * hands over only a part of what another running call recorded, because returns stores all findings of a call or none
 * only when it gets them together. It waits for that call instead.
 *
 * @returns the pending ones of `repeated`. Each is the oldest pending inspection of its line item.
 * @throws Error when this takes more than 5 s.
 */
export async function handOverEarlier(
  deps: HandOverDeps,
  o: Lines,
  { inspections, created, repeated }: OfCall,
): Promise<Pending[]> {
  const newest = new Map(inspections.map(({ lineItemId, id }) => [lineItemId, id]));
  const createdIds = new Set(created.map(({ id }) => id));
  const repeatedIds = new Set(repeated.map(({ id }) => id));
  const endsAt = performance.now() + EARLIER_MS;
  for (;;) {
    const oldest = (await findOldestPending(deps.pool, o)).filter(
      ({ id, lineItemId }) => id <= (newest.get(lineItemId) ?? 0n) && !createdIds.has(id),
    );
    const earlier = oldest.filter(({ id }) => !repeatedIds.has(id));
    const next = earlier.length > 0 ? earlier : oldest;
    const mustWait = next.some(({ isPartOfCall }) => isPartOfCall);
    if (!mustWait && earlier.length === 0) return oldest;
    const timeoutMs = endsAt - performance.now();
    if (timeoutMs <= 0) throw new Error('earlier inspections are not handed over yet');
    if (mustWait) await sleep(POLL_MS);
    else await handOverThese(deps, o, earlier, timeoutMs);
  }
}

/**
 * Hands over these inspections in one call, and then deletes their rows in `handovers`. Each must be the oldest pending
 * inspection of its line item. Safe to repeat, because returns ignores inspections that it already has.
 */
export async function handOverThese(
  deps: HandOverDeps,
  o: Pick<Lines, 'shopId' | 'kind'>,
  pending: readonly Inspection[],
  timeoutMs = TIMEOUT_MS,
): Promise<void> {
  if (pending.length === 0) return;
  const limits = { timeoutMs };
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
 * Hands over the pending inspections of due line items, oldest first. Leaves out those that are leased by their call,
 * and later ones of the line item.
 */
async function handOverDue(deps: HandOverDeps, due: Lines, logger: Logger): Promise<void> {
  for (;;) {
    const oldest = await findOldestPending(deps.pool, due);
    const pending = oldest.filter(({ isLeasedByCall }) => !isLeasedByCall);
    if (pending.length === 0) return;
    await handOverOrDelete(deps, due, pending, logger);
  }
}

/**
 * Hands over these inspections. If they would make the details of a return too large, hands them over one by one, and
 * deletes those that do not fit. The calls that recorded those did not succeed. It deletes exactly what returns has
 * rejected, because in the meantime another call may have recorded about the line item.
 */
async function handOverOrDelete(
  deps: HandOverDeps,
  o: Lines,
  pending: readonly Inspection[],
  logger: Logger,
): Promise<void> {
  try {
    await handOverThese(deps, o, pending);
  } catch (error) {
    if (!isTooLarge(error)) throw error;
    const [first, ...rest] = pending;
    if (rest.length > 0) {
      for (const one of pending) await handOverOrDelete(deps, o, [one], logger);
      return;
    }
    await deleteInspections(deps.pool, o, pending);
    const fields = { shopId: o.shopId, kind: o.kind, lineItemId: first?.lineItemId };
    logger.warn(fields, 'inspection deleted: return details would exceed the size limit');
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
