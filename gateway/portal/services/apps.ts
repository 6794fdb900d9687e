import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type { AppsService } from '../../../proto/gen/rms/portal/v1/apps_pb.ts';
import { listApps, removeApp } from '../../tenancy/installations.ts';
import { authorOf, callOf } from '../call.ts';
import type { Portal } from '../create.ts';

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

    async removeApp({ clientId, issuer }, context) {
      const call = callOf(context);
      const { shopId } = call.session;
      await removeApp(pool, { shopId, clientId, issuer, by: authorOf(call) });
      return {};
    },
  };
}
