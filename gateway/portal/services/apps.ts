import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type { AppsService } from '../../../proto/gen/rms/portal/v1/apps_pb.ts';
import { listRemovedApps } from '../../tenancy/ended-access.ts';
import { listApps, removeApp } from '../../tenancy/installations.ts';
import { authorOf, callOf } from '../call.ts';
import type { Portal } from '../create.ts';
import { endedByView, timestampOf } from '../views/values.ts';

/** The partner apps that the shop installed. */
export function appsService({ pool }: Portal): ServiceImpl<typeof AppsService> {
  return {
    async listApps(_request, context) {
      const apps = await listApps(pool, callOf(context).session.shopId);
      return {
        apps: apps.map(({ clientId, issuer, createdAt }) => ({
          clientId,
          issuer,
          installedAt: timestampFromDate(createdAt),
        })),
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
  };
}
