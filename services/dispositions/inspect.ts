import { isDeepStrictEqual } from 'node:util';
import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import type pg from 'pg';
import type { Actor } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { ItemsInspectedSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import { appendEvents } from '../platform/outbox/append.ts';
import { allInOrder } from '../platform/postgres/all-in-order.ts';
import {
  committing,
  inTransaction,
  type Queryable,
  together,
} from '../platform/postgres/postgres.ts';
import { invalidField } from '../platform/values/errors.ts';
import { claimKey, type KeyUse } from '../platform/values/idempotency.ts';
import { deleteInspections, isTooLarge } from './delete-inspections.ts';
import { DISPOSITIONS, type HandOverDeps, handOverEarlier, handOverThese } from './hand-over.ts';
import type { Finding, Inspection, Kind } from './inspection.ts';
import { type WithHashes, withTextsOf } from './long-texts.ts';
import { findDefaultOutcome } from './settings.ts';
import { areStored, type Current, findCurrent, insertInspections, lockLines } from './store.ts';

/**
 * Records findings, and hands them over to returns before it responds. So the caller can read them in returns
 * afterwards.
 *
 * @returns the inspections in the order of the findings. Those of a repeat may lack long texts of a later call.
 * @throws DomainError INVALID_ARGUMENT when a line item does not belong to the shop or the return; RETURN_TOO_LARGE when
 *   the details of a return would become too large: then no finding of the call stays recorded, except repeated ones
 *   that returns has accepted; ConnectError UNAVAILABLE when returns does not respond: then findings that were recorded are handed
 *   over by the loop in `hand-over.ts`, and a repeated call does not record them again.
 */
export async function inspect(deps: HandOverDeps, batch: Batch): Promise<Recorded> {
  await requireOwnLines(deps, batch);
  const recorded = await record(deps.pool, batch);
  try {
    if (await handOverAll(deps, batch, recorded)) return recorded;
  } catch (error) {
    if (isTooLarge(error)) throw error;
    const message = 'recorded but not yet applied; retry the call';
    throw new ConnectError(message, Code.Unavailable, undefined, undefined, error);
  }
  return inspect(deps, batch);
}

/**
 * Hands over the findings of a call, after those of earlier calls. Returns gets all new findings in one call, so it
 * stores all of them or none. It gets the repeated ones before the new ones: if it has them already, because only the
 * response to the earlier call was lost, they must stay.
 *
 * @returns false when a repeated finding was deleted in the meantime, because it did not fit. Then no finding of the
 *   call is recorded.
 */
async function handOverAll(deps: HandOverDeps, batch: Batch, recorded: Recorded): Promise<boolean> {
  const { created, repeated, othersPending } = recorded;
  const remove = (some: readonly Inspection[]) => deleteInspections(deps.pool, batch, some);
  const orRemove = async <T>(work: Promise<T>, some: readonly Inspection[]): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      if (isTooLarge(error)) await remove(some);
      throw error;
    }
  };
  if (othersPending) {
    const lines = { ...batch, lineItemIds: lineItemIdsOf(batch) };
    const pending = await orRemove(handOverEarlier(deps, lines, recorded), created);
    if (!(await areStored(deps.pool, batch.shopId, [...repeated, ...created]))) {
      await remove(created);
      return false;
    }
    await orRemove(handOverThese(deps, batch, pending), [...pending, ...created]);
  }
  await orRemove(handOverThese(deps, batch, created), created);
  return true;
}

const lineItemIdsOf = ({ findings }: Batch) => findings.map(({ lineItemId }) => lineItemId);

/**
 * Rejects line items that the shop or the return does not have, and more units than a line item has. The error is the
 * same for line items that do not exist and for those of other shops.
 */
async function requireOwnLines({ returns }: HandOverDeps, batch: Batch): Promise<void> {
  const { shopId, returnId = 0n, findings } = batch;
  const lineItemIds = lineItemIdsOf(batch);
  const { owners } = await returns.checkLineItems({ shopId, actor: DISPOSITIONS, lineItemIds });
  const ofReturn = returnId === 0n ? owners : owners.filter((owner) => owner.returnId === returnId);
  const own = new Map(ofReturn.map((owner) => [owner.lineItemId, owner]));
  for (const [index, { lineItemId, quantity = 0 }] of findings.entries()) {
    const owner = own.get(lineItemId);
    const at = `items[${index}]`;
    if (!owner) throw invalidField(`${at}.line_item_id`, 'must be the id of an existing line item');
    // An earlier release of returns does not say how many units a line item has.
    if (owner.quantity > 0 && quantity > owner.quantity) {
      const most = `must be at most ${owner.quantity}, the units of the line item`;
      throw invalidField(`${at}.quantity`, most);
    }
  }
}

/** The findings of one call. They are of one kind, and each is about a different line item of the shop. */
export interface Batch {
  readonly shopId: bigint;
  /** The return that has all line items; 0: they may be of several. */
  readonly returnId?: bigint;
  readonly actor: Actor;
  readonly kind: Kind;
  readonly findings: readonly Finding[];
  /** The idempotency key of the call, with the hash of its content. */
  readonly use?: KeyUse | undefined;
}

const TRIGGERS = { assessment: 'items.assessed', grading: 'items.graded' } satisfies Record<
  Kind,
  string
>;

/** The result of recording a batch. */
interface Recorded {
  readonly inspections: readonly WithHashes[];
  /** The inspections that this call recorded, oldest first. */
  readonly created: readonly Inspection[];
  /** The inspections of earlier calls that equal a finding of this call. */
  readonly repeated: readonly Inspection[];
  /** Whether older inspections of these line items may not have been handed over yet. */
  readonly othersPending: boolean;
  /** Whether the key was used before. Then the inspections may be those of a later call. */
  readonly isRepeat: boolean;
}

/**
 * Records all findings or none. The number of statements is the same for any number of findings.
 *
 * A finding that equals the newest inspection of its line item counts as a repeat, and is not recorded again. A call
 * with a used idempotency key counts as a repeat, too, and returns the newest inspection of each line item.
 */
export async function record(pool: pg.Pool, batch: Batch): Promise<Recorded> {
  return inTransaction(pool, async (tx) => {
    const [first] = batch.findings;
    const isRepeat = first && !(await claimKey(tx, batch.use, first.lineItemId));
    const earlier = isRepeat ? await earlierOf(tx, batch) : undefined;
    if (earlier) return earlier;
    const lines = { ...batch, lineItemIds: batch.findings.map((finding) => finding.lineItemId) };
    const [defaultOutcome, locked] = await together(tx, () =>
      allInOrder([defaultOutcomeFor(tx, batch), lockLines(tx, lines)]),
    );
    const findings = batch.findings.map((finding, index) => {
      const outcome = finding.outcome ?? locked.get(finding.lineItemId)?.outcome ?? defaultOutcome;
      if (outcome === 'missing' && finding.quantity !== undefined) {
        throw invalidField(`items[${index}].quantity`, 'is not for goods that are missing');
      }
      return outcome === finding.outcome ? finding : { ...finding, outcome };
    });
    const current = new Map(
      findings.flatMap((finding) => {
        const former = locked.get(finding.lineItemId);
        // Compare the texts only when the times are equal, because hashing texts is expensive.
        if (!former || !isSameTime(finding, former)) return [];
        return [[finding.lineItemId, withTextsOf(former, finding)]];
      }),
    );
    const newFindings = findings.filter(
      (finding) => !repeats(finding, current.get(finding.lineItemId)),
    );
    const newLines = newFindings.map((finding) => finding.lineItemId);
    const [stored] = await committing(tx, () =>
      allInOrder([
        insertInspections(tx, { ...lines, findings: newFindings }),
        appendEvent(tx, batch, newLines),
      ]),
    );
    const created = [...stored.inspections.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    const inspections = findings.map(({ lineItemId }) => {
      const inspection = stored.inspections.get(lineItemId) ?? current.get(lineItemId);
      if (!inspection) throw new Error('a finding was not recorded');
      return inspection;
    });
    const repeated = inspections.filter(({ lineItemId }) => !stored.inspections.has(lineItemId));
    return { inspections, created, repeated, othersPending: stored.othersPending, isRepeat: false };
  });
}

/**
 * Returns the newest inspections of the line items of an earlier call. They have the long texts of this call where the
 * hashes are equal. Undefined when a line item has no inspection, because it was deleted after a crash.
 */
async function earlierOf(tx: Queryable, batch: Batch): Promise<Recorded | undefined> {
  const lineItemIds = batch.findings.map((finding) => finding.lineItemId);
  const current = await findCurrent(tx, { ...batch, lineItemIds });
  const found = batch.findings.flatMap((finding) => {
    const newest = current.get(finding.lineItemId);
    return newest ? { finding, newest: withTextsOf(newest, finding) } : [];
  });
  if (found.length < lineItemIds.length) return undefined;
  const equal = found.filter(({ finding, newest }) => {
    const { outcome = newest.outcome } = finding;
    return isSameTime(finding, newest) && repeats({ ...finding, outcome }, newest);
  });
  return {
    inspections: found.map(({ newest }) => newest),
    created: [],
    repeated: equal.map(({ newest }) => newest),
    othersPending: true,
    isRepeat: true,
  };
}

/** Returns the shop's default outcome. Undefined when every finding has its own outcome or needs none. */
async function defaultOutcomeFor(tx: Queryable, batch: Batch): Promise<Finding['outcome']> {
  if (batch.kind === 'grading') return undefined;
  if (batch.findings.every((finding) => finding.outcome !== undefined)) return undefined;
  return findDefaultOutcome(tx, batch.shopId);
}

function repeats(finding: Finding, current: Current | undefined): boolean {
  if (!current) return false;
  const { inspectedAt, ...fields } = finding;
  const { inspectedAt: _, id, actor, isFresh, hashes, ...recorded } = current;
  return isDeepStrictEqual(fields, recorded);
}

function isSameTime({ inspectedAt }: Finding, current: Current): boolean {
  return inspectedAt ? inspectedAt.getTime() === current.inspectedAt.getTime() : current.isFresh;
}

/** Appends one event. Its key is one of the line items that this transaction has locked. */
async function appendEvent(tx: Queryable, batch: Batch, lineItemIds: readonly bigint[]) {
  if (lineItemIds.length === 0) return;
  const { shopId, actor, kind } = batch;
  const value = create(ItemsInspectedSchema, { lineItemIds: [...lineItemIds] });
  const detail = { case: 'itemsInspected', value } as const;
  const key = `${shopId}:${lineItemIds[0]}`;
  await appendEvents(tx, [{ trigger: TRIGGERS[kind], shopId, key, actor, detail }]);
}
