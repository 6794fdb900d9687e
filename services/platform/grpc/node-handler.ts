import { constants, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import { Code, ConnectError, createConnectRouter } from '@connectrpc/connect';
import type { UniversalServerRequest } from '@connectrpc/connect/protocol';
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
  /** Time limit for the request of a unary call. After it, the call ends. Milliseconds. */
  readonly requestMs: number;
};

/**
 * Replaces `connectNodeAdapter` of the library, which prints to standard error when a caller disconnects during a
 * response. This handler does not print. It also ends calls whose callers do not complete the request.
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
    if (!handler) return void respond(res, 404);
    const request = requestOf(req, res);
    if (!request) return void respond(res, 400);
    if (handler.method.methodKind === 'unary') endUnlessReceived(req, res, o.requestMs);
    handler(request)
      .then((response) => universalResponseToNodeResponse(response, res))
      .catch((error: unknown) => {
        const isDisconnected =
          res.stream.destroyed || ConnectError.from(error).code === Code.Aborted;
        if (!isDisconnected) o.onSendFailed(handler.requestPath, error);
      });
  };
}

/** Returns undefined for a request whose authority is not part of a URL, for example because of its port. */
function requestOf(
  req: Http2ServerRequest,
  res: Http2ServerResponse,
): UniversalServerRequest | undefined {
  try {
    return universalRequestFromNodeRequest(req, res, undefined, undefined);
  } catch {
    return undefined;
  }
}

function respond(res: Http2ServerResponse, status: number): void {
  res.writeHead(status);
  res.end();
}

/** Ends the stream if the request does not arrive in time. Otherwise it would hold a permit and memory for ever. */
function endUnlessReceived(req: Http2ServerRequest, res: Http2ServerResponse, ms: number): void {
  const timer = setTimeout(() => {
    if (!req.complete) res.stream.close(constants.NGHTTP2_CANCEL);
  }, ms);
  res.stream.once('close', () => clearTimeout(timer));
}
