import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code, type ServiceImpl } from '@connectrpc/connect';
import type { SessionService } from '../../../proto/gen/rms/portal/v1/session_pb.ts';
import { ROLE_PERMISSIONS } from '../../tenancy/permissions.ts';
import { authorOf, callOf } from '../call.ts';
import type { Portal } from '../create.ts';
import { portalError } from '../errors.ts';
import { mayCall, nameOf, PORTAL_METHODS } from '../methods.ts';
import type { PortalSession, SessionShop } from '../session/sessions.ts';

/** Who is signed in and where, and the end of sessions. */
export function sessionService(portal: Portal): ServiceImpl<typeof SessionService> {
  const { sessions, sessionCookie, settings, publicUrl } = portal;
  const view = (session: PortalSession, current: PortalSession) =>
    sessionView(session, {
      isCurrent: session.id === current.id,
      idleMinutes: settings.PORTAL_SESSION_IDLE_MINUTES,
    });
  return {
    async getSession(_request, context) {
      const { session } = callOf(context);
      const { userId, email, name, role } = session;
      return {
        user: { id: String(userId), email, name: name ?? '' },
        shop: shopView({ ...session, id: session.shopId, name: session.shopName }),
        shops: (await sessions.shops(session.id)).map(shopView),
        permissions: [...ROLE_PERMISSIONS[role]],
        methods: PORTAL_METHODS.map(({ method }) => method)
          .filter((method) => mayCall(role, method))
          .map(nameOf),
        session: view(session, session),
        links: {
          baseUrl: publicUrl,
          mcpUrl: `${publicUrl}/mcp`,
          docsUrl: portal.docs ? `${publicUrl}/docs` : '',
        },
      };
    },

    async switchShop({ shopId }, context) {
      const call = callOf(context);
      const { session } = call;
      const shop = (await sessions.shops(session.id)).find(({ id }) => String(id) === shopId);
      if (!shop || !(await sessions.switchShop(session.id, shop.id, authorOf(call)))) {
        throw portalError(
          Code.NotFound,
          'You are not a member of this shop. If you were added today, sign in again.',
        );
      }
      return { shop: shopView(shop) };
    },

    async listSessions(_request, context) {
      const { session } = callOf(context);
      const all = await sessions.list(session.userId);
      return { sessions: all.map((one) => view(one, session)) };
    },

    async endSession({ sessionId }, context) {
      const call = callOf(context);
      const { session } = call;
      const how = { why: 'ended_by_user', by: authorOf(call) } as const;
      if (!(await sessions.end(session.userId, sessionId, how))) {
        throw portalError(Code.NotFound, 'This session has ended already.');
      }
      if (sessionId === session.id)
        context.responseHeader.append('set-cookie', sessionCookie.signedOut());
      return {};
    },

    async signOut(_request, context) {
      const call = callOf(context);
      const { userId, id } = call.session;
      await sessions.end(userId, id, { why: 'signed_out', by: authorOf(call) });
      context.responseHeader.append('set-cookie', sessionCookie.signedOut());
      return {};
    },

    async signOutEverywhere(_request, context) {
      const call = callOf(context);
      const how = { why: 'signed_out_everywhere', by: authorOf(call) } as const;
      const ended = await sessions.endAll(call.session.userId, how);
      context.responseHeader.append('set-cookie', sessionCookie.signedOut());
      return { ended };
    },
  };
}

function shopView({ id, name, currency, sandbox, role }: SessionShop) {
  return { id: String(id), name, currency, sandbox, role };
}

function sessionView(
  session: PortalSession,
  { isCurrent, idleMinutes }: { readonly isCurrent: boolean; readonly idleMinutes: number },
) {
  const idleEndsAt = new Date(session.lastUsedAt.getTime() + idleMinutes * 60_000);
  return {
    id: session.id,
    createdAt: timestampFromDate(session.createdAt),
    lastUsedAt: timestampFromDate(session.lastUsedAt),
    expiresAt: timestampFromDate(session.expiresAt),
    idleEndsAt: timestampFromDate(idleEndsAt < session.expiresAt ? idleEndsAt : session.expiresAt),
    source: session.source ?? '',
    device: session.device,
    shopName: session.shopName,
    current: isCurrent,
  };
}
