import {
  Code,
  ConnectError,
  type ConnectRouter,
  type ConnectRouterOptions,
  type ContextValues,
  createConnectRouter,
} from '@connectrpc/connect';
import {
  compressionBrotli,
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from '@connectrpc/connect-node';
import type { Request, RequestHandler } from 'express';

export interface ApiHandlerOptions extends ConnectRouterOptions {
  routes(router: ConnectRouter): void;
  contextValues(req: Request): ContextValues;
  /** Called when a response could not be sent although its caller is still connected. */
  onSendFailed(rpc: string, error: unknown): void;
}

/**
 * Replaces the library's `expressConnectMiddleware`, which prints to standard error when a browser ends a call. This
 * handler prints nothing.
 */
export function createApiHandler(o: ApiHandlerOptions): RequestHandler {
  const router = createConnectRouter({
    acceptCompression: [compressionGzip, compressionBrotli],
    ...o,
  });
  o.routes(router);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));

  return (req, res, next) => {
    const handler = handlers.get(req.path);
    if (!handler) return next();
    handler(universalRequestFromNodeRequest(req, res, undefined, o.contextValues(req)))
      .then((response) => universalResponseToNodeResponse(response, res))
      .catch((error: unknown) => {
        const isDisconnected = res.destroyed || ConnectError.from(error).code === Code.Aborted;
        if (!isDisconnected) o.onSendFailed(handler.requestPath, error);
      });
  };
}
