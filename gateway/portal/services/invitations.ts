import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type { InvitationSchema, TeamService } from '../../../proto/gen/rms/portal/v1/team_pb.ts';
import {
  invitationLink,
  inviteMember,
  type ListedInvitation,
  listInvitations,
  type MadeInvitation,
  resendInvitation,
  withdrawInvitation,
} from '../../tenancy/invitations.ts';
import { ROLES, type Role } from '../../tenancy/permissions.ts';
import { authorOf, callOf, type PortalCall } from '../call.ts';
import type { Portal } from '../create.ts';
import { idOf, keyOf, upTo, wordOf } from '../fields.ts';

/** As in the table. Characters. */
const MAX_NAME = 191;

type InvitationMethods = Pick<
  ServiceImpl<typeof TeamService>,
  'listInvitations' | 'inviteMember' | 'resendInvitation' | 'withdrawInvitation'
>;

/** The methods of the team about people who are invited. */
export function invitationMethods({ pool, mails, publicUrl }: Portal): InvitationMethods {
  /** The link is in the response only when no mail brings it. */
  const madeView = async (
    call: PortalCall,
    { shopId, invitationId, token }: MadeInvitation,
  ): Promise<{ invitation?: MessageInitShape<typeof InvitationSchema>; link: string }> => {
    const found = (await listInvitations(pool, shopId)).find(({ id }) => id === invitationId);
    return {
      ...(found && { invitation: invitationView(found, call) }),
      link: token === undefined ? '' : invitationLink(publicUrl, token),
    };
  };
  return {
    async listInvitations(_request, context) {
      const call = callOf(context);
      const found = await listInvitations(pool, call.session.shopId);
      return { invitations: found.map((one) => invitationView(one, call)) };
    },

    async inviteMember({ idempotencyKey, email, role, ...request }, context) {
      const call = callOf(context);
      const name = request.name.trim();
      const made = await inviteMember(pool, {
        shopId: call.session.shopId,
        idempotencyKey: keyOf(call, idempotencyKey),
        by: authorOf(call),
        mails,
        email,
        role: wordOf('role', role, ROLES),
        name: name === '' ? undefined : upTo('name', name, MAX_NAME),
      });
      return madeView(call, made);
    },

    async resendInvitation({ idempotencyKey, invitationId }, context) {
      const call = callOf(context);
      const made = await resendInvitation(pool, {
        shopId: call.session.shopId,
        invitationId: idOf(invitationId, 'invitation'),
        idempotencyKey: keyOf(call, idempotencyKey),
        by: authorOf(call),
        mails,
      });
      return madeView(call, made);
    },

    async withdrawInvitation({ invitationId }, context) {
      const call = callOf(context);
      await withdrawInvitation(pool, {
        shopId: call.session.shopId,
        invitationId: idOf(invitationId, 'invitation'),
        by: authorOf(call),
      });
      return {};
    },
  };
}

/** Only an owner may add or change owners. */
export function mayChange(own: Role, role: Role): boolean {
  return own === 'owner' || role !== 'owner';
}

function invitationView(
  { id, createdAt, expiresAt, name, ...rest }: ListedInvitation,
  { session }: PortalCall,
): MessageInitShape<typeof InvitationSchema> {
  return {
    ...rest,
    id: String(id),
    name: name ?? '',
    createdAt: timestampFromDate(createdAt),
    expiresAt: timestampFromDate(expiresAt),
    editable: mayChange(session.role, rest.role),
  };
}
