import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import {
  type AssessmentInputSchema,
  DispositionsService,
} from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import type { DispositionOutcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { type Finding, NO_FIELDS } from '../../../services/dispositions/inspection.ts';
import { startDispositions } from '../../../services/dispositions/start.ts';
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
