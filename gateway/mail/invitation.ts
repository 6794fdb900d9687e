import { afterCommit, type Queryable } from '../../services/platform/postgres/postgres.ts';
import {
  type InvitationId,
  invitationLink,
  invitationToMail,
  newInvitationToken,
} from '../tenancy/invitations.ts';
import { inviterText } from '../tenancy/inviter-text.ts';
import type { Message } from './smtp.ts';

/** The kind of these mails in the table and in metrics. */
export const INVITATION_KIND = 'invitation';

/**
 * Stores the mail of an invitation in the transaction that makes the invitation. It has no address, no text and no link.
 *
 * @param due called after the commit.
 */
export async function addInvitationMail(
  tx: Queryable,
  { shopId, invitationId }: InvitationId,
  due: () => void,
): Promise<void> {
  await tx.query(
    `insert into mails (shop_id, invitation_id, kind, subject, facts, is_gathering, due_at)
     values ($1, $2, $3, $4, $5, false, now())`,
    [
      shopId,
      invitationId,
      INVITATION_KIND,
      `invitation:${invitationId}`,
      JSON.stringify([{ kind: INVITATION_KIND }]),
    ],
  );
  afterCommit(tx, due);
}

/**
 * The mail of an invitation with a new link, whose token is not stored yet. It names the inviting person and not the shop,
 * because only a person who signed in with the invited address may learn the shop. Undefined when nobody could accept the
 * invitation.
 */
export async function invitationMail(
  db: Queryable,
  of: InvitationId,
  publicUrl: string,
): Promise<(Omit<Message, 'messageId'> & { readonly token: string }) | undefined> {
  const invitation = await invitationToMail(db, of);
  if (!invitation) return undefined;
  const token = newInvitationToken();
  const who = inviterText(invitation.inviter);
  const lines = [
    `${who} invites you to join a team that works on returns.`,
    '',
    'Open this link, sign in with the address that got this mail, and accept:',
    '',
    invitationLink(publicUrl, token),
    '',
    'The link works once, and for seven days. You join the team when you accept, not before.',
    '',
    `If you do not know ${who}, or did not expect this, ignore this mail.`,
  ];
  return {
    to: invitation.email,
    subject: `${who} invites you to a team`,
    text: `${lines.join('\n')}\n`,
    token,
  };
}
