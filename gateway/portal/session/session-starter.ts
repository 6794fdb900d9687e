import type { IncomingMessage } from 'node:http';
import type { Author } from '../../tenancy/audit.ts';
import type { SignInAccount } from '../../tenancy/sign-in-accounts.ts';
import { deviceOf } from './device.ts';
import type { SessionCookie } from './session-cookie.ts';
import type { PortalSessions } from './sessions.ts';

/** IP address and id of the request, for the audit log. */
export type From = Required<Pick<Author, 'source' | 'requestId'>>;

/** Starts sessions of people who signed in. */
export interface SessionStarter {
  /** Starts a session in a shop of the user. Returns the value of its `Set-Cookie` header. */
  start(
    req: IncomingMessage,
    who: {
      readonly userId: bigint;
      readonly shopId: bigint;
      readonly account: SignInAccount;
      readonly from: From;
    },
  ): Promise<string>;
}

/** @param o.sessionS maximum duration of a session. Seconds. */
export function createSessionStarter(o: {
  readonly sessions: PortalSessions;
  readonly sessionCookie: SessionCookie;
  readonly sessionS: number;
}): SessionStarter {
  return {
    async start(req, { userId, shopId, account, from }) {
      // A new id for every sign-in, whatever the browser sent: an id that somebody else knows is never used (fixation).
      const former = o.sessionCookie.idOf(req);
      if (former !== undefined) await o.sessions.endSecret(former, from);
      const device = deviceOf(req.headers['user-agent']);
      const session = { userId, shopId, account, ...from, device };
      return o.sessionCookie.store(await o.sessions.start(session), o.sessionS);
    },
  };
}
