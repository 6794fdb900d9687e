import type pg from 'pg';
import type { Settings } from '../../services/platform/process/config.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import type { ReadReturn } from '../actions/context.ts';
import type { ClientIp } from '../auth/client-ip.ts';
import type { HourlyLimits } from '../auth/hourly-limits.ts';
import type { LeasedLimit } from '../auth/leased-limit.ts';
import type { InFlight } from '../http/in-flight.ts';
import type { MailAdder } from '../mail/add-mails.ts';
import { newDevice } from '../mail/facts.ts';
import { SIGN_IN_TTL_S } from '../oauth/provider.ts';
import { createCookies } from '../oauth/sign-in/cookies.ts';
import { createOneTimeRecords } from '../oauth/sign-in/one-time-records.ts';
import { createUpstream, type SignInProvider } from '../oauth/sign-in/upstream.ts';
import type { Services } from '../services.ts';
import type { AuditWriter } from '../tenancy/audit-writer.ts';
import type { InvitationMails } from '../tenancy/invitations.ts';
import type { portalShape } from './config.ts';
import { createInvitationSteps, type InvitationSteps } from './session/invitation.ts';
import { createSessionCookie, type SessionCookie } from './session/session-cookie.ts';
import { createSessionStarter } from './session/session-starter.ts';
import { createPortalSessions, type PortalSessions } from './session/sessions.ts';
import { createPortalSignIn, type PortalSignIn } from './session/sign-in.ts';
import { PORTAL_CALLBACK_PATH } from './session/sign-in-routes.ts';

export interface PortalOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly services: Services;
  readonly readReturn: ReadReturn;
  readonly clientIp: ClientIp;
  readonly inFlight: InFlight;
  readonly audit: AuditWriter;
  /** Limits of sign-ins, by IP address. */
  readonly limits: HourlyLimits;
  /** Calls per minute and user. */
  readonly calls: LeasedLimit;
  /** The public base address, without a trailing slash. */
  readonly publicUrl: string;
  readonly settings: Settings<typeof portalShape>;
  /** Whether `/docs` is served. */
  readonly docs: boolean;
  /** Undefined when mails are off: then the portal shows the link of an invitation to who made it. */
  readonly mails: (InvitationMails & MailAdder) | undefined;
  /** Undefined when no identity provider is configured: then nobody can sign in. */
  readonly provider: SignInProvider | undefined;
}

/** The parts of the merchant's portal that all its requests share. */
export interface Portal extends PortalOptions {
  readonly callsPerMinute: number;
  readonly sessions: PortalSessions;
  readonly sessionCookie: SessionCookie;
  readonly signIn: PortalSignIn | undefined;
  readonly invitations: InvitationSteps | undefined;
}

export function createPortal(o: PortalOptions): Portal {
  const { pool, logger, publicUrl, settings, provider } = o;
  const { PORTAL_SESSION_HOURS: hours, PORTAL_SESSION_IDLE_MINUTES: idleMinutes } = settings;
  const sessions = createPortalSessions(pool, {
    hours,
    idleMinutes,
    onNewDevice: async (tx, device) => o.mails?.add(tx, [newDevice(device)]),
  });
  const sessionCookie = createSessionCookie(publicUrl);
  const records = createOneTimeRecords(pool);
  const starter = createSessionStarter({ sessions, sessionCookie, sessionS: hours * 3_600 });
  const common = { pool, logger, records, starter };
  const invitations = provider && createInvitationSteps({ ...common, publicUrl, mails: o.mails });
  const signIn =
    provider &&
    invitations &&
    createPortalSignIn({
      ...common,
      sessions,
      sessionCookie,
      invitations,
      cookies: createCookies(publicUrl, SIGN_IN_TTL_S),
      upstream: createUpstream({ ...provider, redirectUri: `${publicUrl}${PORTAL_CALLBACK_PATH}` }),
    });
  return {
    ...o,
    sessions,
    sessionCookie,
    signIn,
    invitations,
    callsPerMinute: settings.PORTAL_CALLS_PER_MINUTE,
  };
}
