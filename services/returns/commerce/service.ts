import type { ServiceImpl } from '@connectrpc/connect';
import { z } from 'zod';
import { CommerceService } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { callerShape, id, parseInput } from '../../platform/input.ts';
import type { ServiceParts } from '../../platform/service.ts';
import { runCheck } from './check/run.ts';
import {
  type ConnectionDeps,
  commerceSecretMessage,
  connectionMessage,
  connectShop,
  disconnectShop,
  getConnection,
  rotateCommerceSecret,
} from './connections.ts';
import { listEffects } from './effects.ts';
import type { CommerceClient } from './http/client.ts';
import { type ReconcileDeps, reconcileOnRequest } from './reconciliations.ts';
import { settleEffect } from './settle.ts';

const ofReturn = z.object({ ...callerShape, returnId: id });

/** The RPCs about commerce providers. Each calls one use case. */
export function commerceRoutes(
  deps: ConnectionDeps & ReconcileDeps & { readonly client: CommerceClient },
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
    async listEffects(request) {
      return { effects: await listEffects(pool, parseInput(ofReturn, request)) };
    },
    settleEffect: async (request) => ({ effect: await settleEffect(pool, request) }),
  };
  return (router) => router.service(CommerceService, handlers);
}
