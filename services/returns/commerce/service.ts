import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import { z } from 'zod';
import { CommerceService } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { callerShape, id, parseInput } from '../../platform/input.ts';
import type { ServiceParts } from '../../platform/service.ts';
import { runCheck } from './check/run.ts';
import { getConnection } from './connection-store.ts';
import {
  type ConnectionDeps,
  commerceSecretMessage,
  connectionMessage,
  connectShop,
  disconnectShop,
  rotateCommerceSecret,
} from './connections.ts';
import { listEffects } from './effects.ts';
import { findOrderOnRequest } from './find-order.ts';
import { receiveEvent } from './inbound/receive.ts';
import { type ReconcileDeps, reconcileOnRequest } from './reconciliations.ts';
import { type SettleDeps, settleEffect } from './settle.ts';
import { beginInstall } from './shopify-app/begin-install.ts';
import { completeInstall } from './shopify-app/complete-install.ts';
import { listDataRequests } from './shopify-app/data-requests.ts';
import { createInstallLink } from './shopify-app/install-links.ts';
import { receiveWebhook, type WebhookDeps } from './shopify-app/receive-webhook.ts';

const ofReturn = z.object({ ...callerShape, returnId: id });

/** The RPCs about commerce providers. Each calls one use case. */
export function commerceRoutes(
  deps: ConnectionDeps & ReconcileDeps & SettleDeps & WebhookDeps,
): ServiceParts['routes'] {
  const { pool } = deps;
  const handlers: ServiceImpl<typeof CommerceService> = {
    async connect(request) {
      const { connection, secret } = await connectShop(deps, request);
      const made = secret && { secret: commerceSecretMessage(secret) };
      return { connection: connectionMessage(connection), ...made };
    },
    getConnection: async ({ shopId }) => ({
      connection: connectionMessage(await getConnection(pool, shopId)),
    }),
    rotateSecret: async (request) => ({
      secret: commerceSecretMessage(await rotateCommerceSecret(deps, request)),
    }),
    disconnect: async (request) => ({ disconnected: await disconnectShop(pool, request) }),
    runCheck: (request) => runCheck(deps, request),
    reconcile: (request) => reconcileOnRequest(deps, request),
    receiveEvent: async (request) => ({ result: await receiveEvent(deps, request) }),
    async listEffects(request) {
      return { effects: await listEffects(pool, parseInput(ofReturn, request)) };
    },
    findOrder: (request) => findOrderOnRequest(deps, request),
    settleEffect: async (request) => ({ effect: await settleEffect(deps, request) }),
    async createShopifyInstallLink(request) {
      const { link, expiresAt } = await createInstallLink(deps, request);
      return { link, expiresAt: timestampFromDate(expiresAt) };
    },
    beginShopifyInstall: (request) => beginInstall(deps, request),
    completeShopifyInstall: (request) => completeInstall(deps, request),
    receiveShopifyWebhook: async (request) => ({ accepted: await receiveWebhook(deps, request) }),
    listShopifyDataRequests: async ({ shopId }) => ({
      requests: await listDataRequests(pool, shopId),
    }),
  };
  return (router) => router.service(CommerceService, handlers);
}
