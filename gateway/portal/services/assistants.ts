import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type {
  AssistantSchema,
  AssistantsService,
} from '../../../proto/gen/rms/portal/v1/assistants_pb.ts';
import { type Assistants, createAssistants } from '../../actions/assistants.ts';
import type { ActiveGrant } from '../../tenancy/grants.ts';
import { listMembers } from '../../tenancy/members.ts';
import { callOf, type PortalCall } from '../call.ts';
import type { Portal } from '../create.ts';
import { cursorOf, placeOf } from '../cursor.ts';
import { pageSizeOf } from '../fields.ts';
import { timestampOf } from '../views/values.ts';

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
      const after = placeOf(cursor);
      const found = await assistantsOf(call).list({
        limit: limit + 1,
        ...(after && { after: { id: after.id, createdAt: after.at } }),
      });
      const members = await listMembers(pool, call.session.shopId);
      const roles = new Map<bigint, string>(members.map(({ userId, role }) => [userId, role]));
      const shown = found.slice(0, limit);
      const last = shown.at(-1);
      return {
        assistants: shown.map((one) => assistantView(one, call, roles.get(one.userId) ?? '')),
        nextCursor:
          last && found.length > limit ? cursorOf({ at: last.createdAt, id: last.id }) : '',
      };
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
