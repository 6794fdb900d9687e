import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type {
  AssistantSchema,
  AssistantsService,
  EndedAssistantSchema,
} from '../../../proto/gen/rms/portal/v1/assistants_pb.ts';
import { type Assistants, createAssistants } from '../../actions/assistants.ts';
import type { EndedGrant } from '../../tenancy/ended-access.ts';
import type { ActiveGrant } from '../../tenancy/grants.ts';
import { listMembers } from '../../tenancy/members.ts';
import { callOf, type PortalCall } from '../call.ts';
import type { Portal } from '../create.ts';
import { pageSizeOf } from '../fields.ts';
import { endedByView, timestampOf } from '../views/values.ts';

/** The assistants that are connected to the shop. */
export function assistantsService({ pool }: Portal): ServiceImpl<typeof AssistantsService> {
  const assistantsOf = ({ session, actor, from }: PortalCall): Assistants => {
    const { shopId, userId, role } = session;
    return createAssistants(pool, { shopId, userId, role, actor, from });
  };
  return {
    async listAssistants({ pageSize, cursor }, context) {
      const call = callOf(context);
      const limit = pageSizeOf(pageSize);
      const page = { limit, cursor, isNewestFirst: true };
      const { grants, nextCursor } = await assistantsOf(call).list(page);
      const members = await listMembers(pool, call.session.shopId);
      const roles = new Map<bigint, string>(members.map(({ userId, role }) => [userId, role]));
      return {
        assistants: grants.map((one) => assistantView(one, call, roles.get(one.userId) ?? '')),
        nextCursor,
      };
    },

    async listEndedAssistants(_request, context) {
      const call = callOf(context);
      const { ended, isMore } = await assistantsOf(call).listEnded();
      return { assistants: ended.map((one) => endedView(one, call)), more: isMore };
    },

    async disconnectAssistant({ assistantId }, context) {
      await assistantsOf(callOf(context)).disconnect(assistantId);
      return {};
    },
  };
}

function assistantView(
  one: ActiveGrant,
  { session }: PortalCall,
  role: string,
): MessageInitShape<typeof AssistantSchema> {
  const lastUsedAt = timestampOf(one.lastUsedAt);
  return {
    id: one.id,
    app: one.app ?? '',
    selfName: one.selfName ?? '',
    clientId: one.clientId,
    userId: String(one.userId),
    userName: one.userName ?? '',
    userEmail: one.email,
    role,
    own: one.userId === session.userId,
    readOnly: one.isReadOnly,
    connectedAt: timestampFromDate(one.createdAt),
    expiresAt: timestampFromDate(one.expiresAt),
    ...(lastUsedAt && { lastUsedAt }),
  };
}

function endedView(
  one: EndedGrant,
  { session }: PortalCall,
): MessageInitShape<typeof EndedAssistantSchema> {
  const [connectedAt, endedAt] = [timestampOf(one.createdAt), timestampOf(one.endedAt)];
  const endedBy = endedByView(one);
  return {
    id: one.id,
    app: one.app ?? '',
    clientId: one.clientId,
    userId: String(one.userId ?? 0),
    userName: one.userName ?? '',
    userEmail: one.email ?? '',
    own: one.userId === session.userId,
    readOnly: one.isReadOnly,
    ...(connectedAt && { connectedAt }),
    ...(endedAt && { endedAt }),
    reason: one.reason,
    ...(endedBy && { endedBy }),
  };
}
