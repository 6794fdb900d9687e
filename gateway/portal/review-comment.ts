import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ReturnCommentSchema } from '../../proto/gen/rms/portal/v1/return_pb.ts';
import { type Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { permissionsFor } from '../actions/permissions.ts';
import { getTimeline } from '../actions/timeline.ts';
import { permits } from '../tenancy/permissions.ts';
import type { PortalCall } from './call.ts';
import { timelineEntryView } from './views/return-records.ts';

const FLAGGED = 'return.flagged';

/**
 * What somebody wrote when they put the return into review: often the condition on which the review may end. Undefined
 * when they gave only reasons, which the return has itself.
 */
export async function reviewComment(
  { context, session: { role } }: PortalCall,
  ret: Return,
): Promise<MessageInitShape<typeof ReturnCommentSchema> | undefined> {
  const mayRead = permits(role, permissionsFor('get_return_timeline'));
  if (ret.state !== ReturnState.REVIEW || !mayRead) return undefined;
  const newest = { returnId: ret.id, limit: 1, kinds: [FLAGGED], role };
  const [entry] = (await getTimeline(context, newest)).entries;
  if (entry?.kind !== FLAGGED || entry.text === ret.flagReasons.join('; ')) return undefined;
  const { text, by, occurredAt } = timelineEntryView(entry);
  return { ...(text && { text }), ...(by && { by }), ...(occurredAt && { at: occurredAt }) };
}
