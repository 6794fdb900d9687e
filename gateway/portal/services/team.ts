import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type { MemberSchema, TeamService } from '../../../proto/gen/rms/portal/v1/team_pb.ts';
import { ownerAdded } from '../../mail/facts.ts';
import {
  addMember,
  endMemberAccess,
  type ListedMember,
  listMembers,
  removeMember,
} from '../../tenancy/members.ts';
import { ROLE_PERMISSIONS, ROLES } from '../../tenancy/permissions.ts';
import { authorOf, callOf, type PortalCall } from '../call.ts';
import type { Portal } from '../create.ts';
import { idOf, notFound, optionalWord, wordOf } from '../fields.ts';
import { ROLE_TEXTS, roleActions } from '../role-texts.ts';
import { timestampOf } from '../views/values.ts';
import { invitationMethods, mayChange } from './invitations.ts';

/** The shop's members and their roles, and who is invited. */
export function teamService(portal: Portal): ServiceImpl<typeof TeamService> {
  const { pool, mails } = portal;
  const memberOf = async ({ session }: PortalCall, userId: bigint): Promise<ListedMember> => {
    const found = (await listMembers(pool, session.shopId)).find((one) => one.userId === userId);
    if (!found) throw notFound('member');
    return found;
  };
  return {
    ...invitationMethods(portal),

    async listMembers(_request, context) {
      const call = callOf(context);
      const members = await listMembers(pool, call.session.shopId);
      return {
        members: members.map((member) => memberView(member, call)),
        assignableRoles: ROLES.filter((role) => mayChange(call.session.role, role)),
      };
    },

    listRoles() {
      return {
        roles: ROLES.map((name) => ({
          name,
          description: ROLE_TEXTS[name],
          permissions: [...ROLE_PERMISSIONS[name]],
        })),
        actions: roleActions(),
      };
    },

    async changeRole({ userId, role, expectedRole }, context) {
      const call = callOf(context);
      const { email, userId: id } = await memberOf(call, idOf(userId, 'member'));
      await addMember(pool, {
        shopId: call.session.shopId,
        email,
        only: 'existing',
        by: authorOf(call),
        role: wordOf('role', role, ROLES),
        expected: optionalWord('expected_role', expectedRole, ROLES),
        async ownerAdded(tx, id) {
          const { shopId, userId: byUserId } = call.session;
          await mails?.add(tx, [ownerAdded({ shopId, userId: id, byUserId })]);
        },
      });
      return { member: memberView(await memberOf(call, id), call) };
    },

    async endMemberAccess({ userId }, context) {
      const call = callOf(context);
      const { email } = await memberOf(call, idOf(userId, 'member'));
      await endMemberAccess(pool, { shopId: call.session.shopId, email, by: authorOf(call) });
      return {};
    },

    async removeMember({ userId }, context) {
      const call = callOf(context);
      const { email } = await memberOf(call, idOf(userId, 'member'));
      await removeMember(pool, { shopId: call.session.shopId, email, by: authorOf(call) });
      return {};
    },
  };
}

function memberView(
  { userId, email, name, role, createdAt, isLinked, keys, ...member }: ListedMember,
  { session }: PortalCall,
): MessageInitShape<typeof MemberSchema> {
  const assistantUsedAt = timestampOf(member.assistantUsedAt);
  return {
    userId: String(userId),
    email,
    name: name ?? '',
    role,
    signedIn: isLinked,
    createdAt: timestampFromDate(createdAt),
    self: userId === session.userId,
    editable: mayChange(session.role, role),
    keys: [...keys],
    ...(assistantUsedAt && { assistantUsedAt }),
  };
}
