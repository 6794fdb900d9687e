import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type pg from 'pg';
import { z } from 'zod';
import type { Logger } from '../../../services/platform/telemetry/log.ts';
import type { MailAdder } from '../../mail/add-mails.ts';
import { ownerAdded } from '../../mail/facts.ts';
import { type PageResponse, redirect } from '../../oauth/pages/response.ts';
import { cookieOf } from '../../oauth/sign-in/cookies.ts';
import type { OneTimeRecords } from '../../oauth/sign-in/one-time-records.ts';
import { confirmsEmail, type Identity } from '../../oauth/sign-in/upstream.ts';
import { acceptInvitation } from '../../tenancy/accept-invitation.ts';
import { type FoundInvitation, INVITATION_PATH, invitationOf } from '../../tenancy/invitations.ts';
import { inviterText } from '../../tenancy/inviter-text.ts';
import { parseEmail } from '../../tenancy/users.ts';
import {
  entryPage,
  invitedPage,
  offerPage,
  problemPage,
  unconfirmedPage,
  wrongAddressPage,
} from './invitation-pages.ts';
import { PORTAL_PATH } from './return-path.ts';
import type { From, SessionStarter } from './session-starter.ts';

/**
 * An invitation that a browser has opened. Stored under a random id that only a cookie of the browser has. So the token is
 * in no address after the link, and a page can be loaded again.
 */
const openedInvitation = z.object({
  token: z.string(),
  /** Who signed in; absent before. */
  who: z
    .object({
      issuer: z.string(),
      subject: z.string(),
      /** As `parseEmail` returns it; null when the identity provider does not confirm one. */
      email: z.string().nullable(),
    })
    .optional(),
});
type OpenedInvitation = z.infer<typeof openedInvitation>;

/** The way of an invited person, who may be a member of no shop. Each step returns the response for the browser. */
export interface InvitationSteps {
  /** Opens the invitation of a token, or of a whole link. Changes nothing about the invitation. */
  open(code: string): Promise<PageResponse>;
  /** Shows the invitation that the browser has opened: before the sign-in without the shop. */
  show(req: IncomingMessage): Promise<PageResponse>;
  /** The id of the invitation that the browser has opened, for the sign-in. */
  openedBy(req: IncomingMessage): Promise<string | undefined>;
  /** Notes who signed in. @param id see `openedBy`. */
  signedIn(id: string, identity: Identity): Promise<PageResponse>;
  /** Makes the membership, and starts a session in the shop. */
  accept(req: IncomingMessage, from: From): Promise<PageResponse>;
}

/** How long an opened invitation waits for the person, who may have to make an account first. Seconds. */
const OPENED_TTL_S = 3_600;

/** A token, or the id of an opened invitation: 32 random bytes in base64url. */
const SECRET = /^[A-Za-z0-9_-]{43}$/;

interface InvitationOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly records: OneTimeRecords;
  readonly starter: SessionStarter;
  readonly publicUrl: string;
  /** Mails to the owners; undefined when mails are off. */
  readonly mails: MailAdder | undefined;
}

export function createInvitationSteps(o: InvitationOptions): InvitationSteps {
  const cookie = createCookie(o.publicUrl);
  const openedOf = async (
    req: IncomingMessage,
  ): Promise<(OpenedInvitation & { readonly id: string }) | undefined> => {
    const id = cookie.idOf(req);
    const found = id === undefined ? undefined : await o.records.find('OpenInvitation', id);
    if (id === undefined || !found || found.hasExpired) return undefined;
    const opened = openedInvitation.safeParse(found.content).data;
    return opened && { id, ...opened };
  };
  /** Under a new id each time: an id that somebody else knows from before the sign-in is of no use. */
  const store = async (content: OpenedInvitation): Promise<PageResponse> => {
    const id = randomBytes(32).toString('base64url');
    await o.records.put('OpenInvitation', id, { content, ttlS: OPENED_TTL_S });
    return redirect(INVITATION_PATH, [cookie.store(id)]);
  };

  return {
    async open(code) {
      const token = code.trim().split('#').at(-1) ?? '';
      const isKnown = SECRET.test(token) && (await invitationOf(o.pool, token)) !== undefined;
      return isKnown ? store({ token }) : problemPage('unknown');
    },

    async show(req) {
      const opened = await openedOf(req);
      if (!opened) return entryPage();
      const invitation = await invitationOf(o.pool, opened.token);
      return invitation ? pageOf(invitation, opened) : problemPage('unknown');
    },

    openedBy: async (req) => (await openedOf(req))?.id,

    async signedIn(id, identity) {
      const content = await o.records.take('OpenInvitation', id);
      const opened = openedInvitation.safeParse(content).data;
      if (!opened) return entryPage();
      const parsed = parseEmail(identity.email ?? '');
      const email = parsed !== undefined && confirmsEmail(identity, parsed) ? parsed : null;
      const { issuer, subject } = identity;
      return store({ token: opened.token, who: { issuer, subject, email } });
    },

    async accept(req, from) {
      const opened = await openedOf(req);
      const email = opened?.who?.email;
      if (!opened?.who || !email) return redirect(INVITATION_PATH);
      const { token, who } = opened;
      const account = { issuer: who.issuer, subject: who.subject };
      const result = await acceptInvitation(o.pool, {
        token,
        email,
        account,
        from,
        async added(tx, { shopId, role, inviter }, userId) {
          if (role !== 'owner') return;
          await o.mails?.add(tx, [ownerAdded({ shopId, userId, byUserId: inviter.id })]);
        },
      });
      if (result.kind !== 'member') {
        o.logger.info({ reason: result.kind }, 'invitation not accepted');
        // The page of the invitation says why, as after a reload; only these two are not in its state.
        if (result.kind !== 'full' && result.kind !== 'otherAccount') {
          return redirect(INVITATION_PATH);
        }
        const invitation = await invitationOf(o.pool, token);
        return problemPage(result.kind, invitation && inviterText(invitation.inviter));
      }
      const session = await o.starter.start(req, { ...result, account, from });
      await o.records.remove('OpenInvitation', opened.id);
      return redirect(PORTAL_PATH, [session, cookie.remove()]);
    },
  };
}

function pageOf(invitation: FoundInvitation, { who }: OpenedInvitation): PageResponse {
  const inviter = inviterText(invitation.inviter);
  if (invitation.state !== 'open') return problemPage(invitation.state, inviter);
  if (!who) return invitedPage(inviter);
  if (who.email === null) return unconfirmedPage();
  return who.email === invitation.email
    ? offerPage(invitation, inviter)
    : wrongAddressPage(who.email);
}

/** The cookie with the id of an opened invitation. It is sent when the browser comes back from the identity provider. */
function createCookie(publicUrl: string) {
  const isSecure = publicUrl.startsWith('https:');
  const name = isSecure ? '__Host-rms_invitation' : 'rms_invitation';
  const attributes = `Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
  return {
    idOf(req: IncomingMessage): string | undefined {
      const value = cookieOf(req, name);
      return value !== undefined && SECRET.test(value) ? value : undefined;
    },
    store: (id: string) => `${name}=${id}; Max-Age=${OPENED_TTL_S}; ${attributes}`,
    remove: () => `${name}=; Max-Age=0; ${attributes}`,
  };
}
