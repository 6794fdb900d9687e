import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type { AppsService } from '../../../proto/gen/rms/portal/v1/apps_pb.ts';
import { isScope, SCOPE_RULES } from '../../../services/contract/scopes.ts';
import { invalidField } from '../../../services/platform/values/errors.ts';
import { partnerIssuer } from '../../oauth/partners/address.ts';
import { listRemovedApps } from '../../tenancy/ended-access.ts';
import { listApps, removeApp } from '../../tenancy/installations.ts';
import { allowWaitingScopes } from '../../tenancy/partner-grants.ts';
import { authorOf, callOf } from '../call.ts';
import type { Portal } from '../create.ts';
import { endedByView, timestampOf } from '../views/values.ts';

/** The partner apps that the shop installed. */
export function appsService({ pool, publicUrl }: Portal): ServiceImpl<typeof AppsService> {
  return {
    async listApps(_request, context) {
      const { shopId } = callOf(context).session;
      const apps = await listApps(pool, { shopId, ownIssuer: partnerIssuer(publicUrl) });
      return {
        apps: apps.map((app) => {
          const lastUsedAt = timestampOf(app.lastUsedAt);
          return {
            clientId: app.clientId,
            issuer: app.issuer,
            installedAt: timestampFromDate(app.createdAt),
            name: app.name ?? '',
            website: app.website ?? '',
            scopes: app.scopes.map(scopeView),
            waitingScopes: app.waitingScopes.map(scopeView),
            ...(lastUsedAt && { lastUsedAt }),
          };
        }),
      };
    },

    async listRemovedApps(_request, context) {
      const { ended, isMore } = await listRemovedApps(pool, callOf(context).session.shopId);
      return {
        more: isMore,
        apps: ended.map((one) => {
          const installedAt = timestampOf(one.installedAt);
          const removedBy = endedByView(one);
          return {
            id: String(one.id),
            clientId: one.clientId,
            issuer: one.issuer,
            removedAt: timestampFromDate(one.removedAt),
            ...(installedAt && { installedAt }),
            ...(removedBy && { removedBy }),
          };
        }),
      };
    },

    async removeApp({ clientId, issuer }, context) {
      const call = callOf(context);
      const { shopId } = call.session;
      await removeApp(pool, { shopId, clientId, issuer, by: authorOf(call) });
      return {};
    },

    async allowAppScopes({ clientId, issuer, scopes }, context) {
      const call = callOf(context);
      const { shopId } = call.session;
      if (scopes.length < 1 || scopes.length > MAX_SCOPES) {
        throw invalidField('scopes', `must have 1 to ${MAX_SCOPES} names`);
      }
      await allowWaitingScopes(pool, { shopId, clientId, issuer, scopes, by: authorOf(call) });
      return {};
    },
  };
}

/** Maximum number of scopes in one call. */
const MAX_SCOPES = 50;

function scopeView(name: string) {
  return { name, text: isScope(name) ? SCOPE_RULES[name].text : name };
}
