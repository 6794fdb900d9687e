import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import { Code, ConnectError, createConnectRouter } from '@connectrpc/connect';
import {
  type ConnectNodeAdapterOptions,
  compressionBrotli,
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from '@connectrpc/connect-node';

export type NodeHandlerOptions = Omit<
  ConnectNodeAdapterOptions,
  'fallback' | 'contextValues' | 'requestPathPrefix'
> & {
  /** Called when a response could not be sent and its caller is still connected. */
  readonly onSendFailed: (rpc: string, error: unknown) => void;
};

/**
 * Replaces `connectNodeAdapter` of the library, which prints to standard error when a caller disconnects during a
 * response. This handler does not print.
 */
export function createNodeHandler(o: NodeHandlerOptions) {
  const router = createConnectRouter({
    acceptCompression: [compressionGzip, compressionBrotli],
    ...o,
  });
  o.routes(router);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));

  return (req: Http2ServerRequest, res: Http2ServerResponse): void => {
    const [path = ''] = req.url.split('?', 1);
    const handler = handlers.get(path);
    if (!handler) {
      res.writeHead(404);
      res.end();
      return;
    }
    handler(universalRequestFromNodeRequest(req, res, undefined, undefined))
      .then((response) => universalResponseToNodeResponse(response, res))
      .catch((error: unknown) => {
        const isDisconnected =
          res.stream.destroyed || ConnectError.from(error).code === Code.Aborted;
        if (!isDisconnected) o.onSendFailed(handler.requestPath, error);
      });
  };
}
