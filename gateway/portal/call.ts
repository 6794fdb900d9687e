import type { MessageInitShape } from '@bufbuild/protobuf';
import { createContextKey, type HandlerContext } from '@connectrpc/connect';
import type { ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type { ActionContext, changeNotes } from '../actions/context.ts';
import type { Author } from '../tenancy/audit.ts';
import type { PortalSession } from './session/sessions.ts';

/** One call of the portal's page: who calls, in which shop, and from where. All of it comes from the session. */
export interface PortalCall {
  readonly session: PortalSession;
  readonly actor: MessageInitShape<typeof ActorSchema>;
  /** IP address and id of the request, for the audit log. */
  readonly from: Required<Pick<Author, 'source' | 'requestId'>>;
  /** The context of actions in the session's shop. */
  readonly context: ActionContext;
  /** What the call has changed so far. */
  readonly changes: Pick<ReturnType<typeof changeNotes>, 'detail'>;
  /** The date of the listener's version calendar. */
  readonly today: Date;
}

/** Undefined until the guard has accepted the request. */
export const CALL = createContextKey<PortalCall | undefined>(undefined);

/** The call of a handler. @throws Error without one, which is a bug. */
export function callOf({ values }: Pick<HandlerContext, 'values'>): PortalCall {
  const call = values.get(CALL);
  if (!call) throw new Error('the portal call has no session');
  return call;
}

/** The author of a change, for the audit log and for rules about members. */
export function authorOf({
  actor,
  from,
  session,
}: PortalCall): Author & { readonly userId: bigint } {
  return { actor, ...from, userId: session.userId };
}
