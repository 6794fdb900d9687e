import { Code, type ServiceImpl } from '@connectrpc/connect';
import type { ItemFinding, ReturnsService } from '../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { DISPOSITION_ITEMS_MAX, NOTE_MAX } from '../../../services/contract/limits.ts';
import {
  CONDITION_CATEGORIES,
  DISPOSITION_OUTCOMES,
} from '../../../services/contract/vocabulary.ts';
import { assessDispositions, gradeItems } from '../../actions/dispositions.ts';
import { findReturn } from '../../actions/returns.ts';
import { callOf, type PortalCall } from '../call.ts';
import { portalError } from '../errors.ts';
import { idOf, invalid, keyOf, upTo, wordOf } from '../fields.ts';
import type { ShowReturn } from './return-changes.ts';

type Inspections = 'gradeItems' | 'recordDispositions';

/** The methods that record what a warehouse found. */
export function inspectionMethods(
  show: ShowReturn,
): Pick<ServiceImpl<typeof ReturnsService>, Inspections> {
  return {
    async gradeItems({ returnId, items, idempotencyKey }, context) {
      const call = callOf(context);
      const { value, findings } = await findingsOf(call, returnId, items, CONDITION_CATEGORIES);
      const body = findings.map(({ finding, ...rest }) => ({ ...rest, category: finding }));
      await gradeItems(call.context, { items: body }, keyOf(call, idempotencyKey));
      return { return: await show(call, await findReturn(call.context, byId(value))) };
    },

    async recordDispositions({ returnId, items, idempotencyKey }, context) {
      const call = callOf(context);
      const { value, findings } = await findingsOf(call, returnId, items, DISPOSITION_OUTCOMES);
      const body = findings.map(({ finding, ...rest }) => ({
        ...rest,
        disposition_outcome: finding,
      }));
      await assessDispositions(call.context, { items: body }, keyOf(call, idempotencyKey));
      return { return: await show(call, await findReturn(call.context, byId(value))) };
    },
  };
}

const byId = (value: bigint) => ({ case: 'returnId' as const, value });

interface Finding<W> {
  readonly line_item_id: number;
  readonly finding: W;
  readonly note?: string;
}

/** Checks the findings: 1 to 30, of line items of the return, each at most once. */
async function findingsOf<W extends string>(
  call: PortalCall,
  returnId: string,
  items: readonly ItemFinding[],
  words: readonly W[],
): Promise<{ value: bigint; findings: Finding<W>[] }> {
  const value = idOf(returnId, 'return');
  if (items.length < 1 || items.length > DISPOSITION_ITEMS_MAX) {
    throw invalid('items', `must have 1 to ${DISPOSITION_ITEMS_MAX} entries`);
  }
  const findings = items.map(({ lineItemId, finding, note }) => ({
    line_item_id: Number(idOf(lineItemId, 'line item')),
    finding: wordOf('finding', finding, words),
    ...(note !== '' && { note: upTo('note', note, NOTE_MAX) }),
  }));
  const given = new Set(findings.map(({ line_item_id }) => line_item_id));
  if (given.size < findings.length) throw invalid('items', 'must not name a line item twice');
  const ret = await findReturn(call.context, byId(value));
  const own = new Set(ret.lineItems.map(({ lineItemId }) => Number(lineItemId)));
  if ([...given].some((id) => !own.has(id))) {
    throw portalError(Code.NotFound, 'This return has no such line item.');
  }
  return { value, findings };
}
