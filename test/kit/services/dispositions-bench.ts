import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  type AssessmentInputSchema,
  DispositionsService,
} from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import type { DispositionOutcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ApplyAssessmentsRequest } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { type Finding, NO_FIELDS } from '../../../services/dispositions/inspection.ts';
import { startDispositions } from '../../../services/dispositions/service.ts';
import { DomainError } from '../../../services/platform/values/errors.ts';
import { startFakeReturns } from './fake-returns.ts';
import { actor, newShop, runService } from './running-service.ts';

export type NewAssessment = Omit<MessageInitShape<typeof AssessmentInputSchema>, '$typeName'>;

/** An outcome that the proto does not define. */
export const UNKNOWN_OUTCOME = 9 as DispositionOutcome;

export const invalid = (field: string) => ({
  code: Code.InvalidArgument,
  reason: 'INVALID_FIELD',
  field,
});

/** The text and the error of returns for an inspection that does not fit, and how a caller sees the error. */
export const TOO_LARGE_TEXT =
  'the details of return 1 would be larger than 24 MiB (25165824 bytes)';
export const tooLarge = new DomainError(
  Code.InvalidArgument,
  ErrorReason.RETURN_TOO_LARGE,
  TOO_LARGE_TEXT,
);
export const refusedAsTooLarge = {
  code: Code.InvalidArgument,
  reason: 'RETURN_TOO_LARGE',
  field: undefined,
};

/** The notes of the assessments in one call to returns. */
export const notesIn = ({ assessments }: ApplyAssessmentsRequest) =>
  assessments.map(({ disposition }) => disposition?.note);

/** For `beforeAssessments`: returns has no space for an assessment with the note `large`. */
export function rejectLarge(request: ApplyAssessmentsRequest): void {
  if (notesIn(request).includes('large')) throw tooLarge;
}

/** An assessment that has only an outcome. */
export const FINDING: Finding = {
  ...NO_FIELDS,
  outcome: 'donate',
  lineItemId: 0n,
  returnProcessor: undefined,
  note: undefined,
  inspectedAt: undefined,
  images: [],
};

/** The dispositions service with a fake returns service. */
export async function startDispositionsBench() {
  const returns = await startFakeReturns();
  const { client, db, events, stop } = await runService({
    schema: 'dispositions',
    service: DispositionsService,
    start: (options) => startDispositions({ ...options, RETURNS_TARGET: returns.target }),
  });
  let lastLine = 0n;

  return {
    returns,
    client,
    db,
    events,

    /** A new shop with one return of `count` line items. */
    shopWithLines(count: number) {
      const shopId = newShop();
      const lines = Array.from({ length: count }, () => ++lastLine);
      returns.addReturn(shopId, shopId, lines);
      return { shopId, lines, line: lines[0] ?? 0n };
    },

    async assess(shopId: bigint, items: readonly NewAssessment[]) {
      return (await client.assess({ shopId, actor, items: [...items] })).items;
    },

    async currentOf(shopId: bigint, lineItemIds: bigint[]) {
      return (await client.getDispositions({ shopId, actor, lineItemIds })).items;
    },

    /** The notes of the newest assessments of the line items. */
    async notesOf(shopId: bigint, lineItemIds: bigint[]) {
      const { items } = await client.getDispositions({ shopId, actor, lineItemIds });
      return items.map(({ disposition }) => disposition?.note);
    },

    /** The notes that returns received, a list for each call. */
    notesHandedTo(shopId: bigint) {
      return returns.assessments.filter((call) => call.shopId === shopId).map(notesIn);
    },

    /** The assessments that returns received, in order. */
    handedTo(shopId: bigint) {
      const calls = returns.assessments.filter((call) => call.shopId === shopId);
      return calls.flatMap((call) => call.assessments);
    },

    async pendingOf(shopId: bigint): Promise<number> {
      const sql = 'select inspection_id from handovers where shop_id = $1';
      return (await db.pool.query(sql, [shopId])).rows.length;
    },

    /** Makes the handover job due now. */
    async makeDue(shopId: bigint): Promise<void> {
      await db.pool.query('update handovers set due_at = now() where shop_id = $1', [shopId]);
    },

    async stop() {
      await stop();
      await returns.stop();
    },
  };
}

export type DispositionsBench = Awaited<ReturnType<typeof startDispositionsBench>>;
