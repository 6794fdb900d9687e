import {
  constants,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type OutgoingHttpHeaders,
} from 'node:http2';
import {
  Code,
  ConnectError,
  type ContextValues,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type Interceptor,
} from '@connectrpc/connect';
import type { UniversalServerRequest } from '@connectrpc/connect/protocol';
import { parseTimeout } from '@connectrpc/connect/protocol-grpc';
import {
  type ConnectNodeAdapterOptions,
  compressionBrotli,
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from '@connectrpc/connect-node';
import { MAX_TIMER_MS } from '../worker.ts';

export type NodeHandlerOptions = Omit<
  ConnectNodeAdapterOptions,
  'fallback' | 'contextValues' | 'requestPathPrefix'
> & {
  /** Called when a response could not be sent and its caller is still connected. */
  readonly onSendFailed: (rpc: string, error: unknown) => void;
  /** Time limit for the request of a unary call. After it, the call ends. Milliseconds. */
  readonly requestMs: number;
};

/** Whether the call was admitted, and its request is being read. */
const IS_READING = createContextKey(false);

const endReading: Interceptor = (next) => (req) => {
  req.contextValues.set(IS_READING, false);
  return next(req);
};

/**
 * Replaces `connectNodeAdapter` of the library, which prints to standard error when a caller disconnects during a
 * response. This handler does not print. It also ends calls whose callers do not complete the request, answers the code
 * INVALID_ARGUMENT to a request that cannot be read, for which the library answers INTERNAL, and sends error texts that
 * clients in Node can decode.
 */
export function createNodeHandler(o: NodeHandlerOptions) {
  const router = createConnectRouter({
    acceptCompression: [compressionGzip, compressionBrotli],
    ...o,
    interceptors: [endReading, ...(o.interceptors ?? [])],
    async requestGate(context) {
      await o.requestGate?.(context);
      context.values.set(IS_READING, true);
    },
  });
  o.routes(router);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));

  return (req: Http2ServerRequest, res: Http2ServerResponse): void => {
    const [path = ''] = req.url.split('?', 1);
    const handler = handlers.get(path);
    if (!handler) return void respondUnknown(req, res);
    const values = createContextValues();
    const request = requestOf(req, res, values);
    if (!request) return void respond(res, 400);
    dropLongDeadline(request.header);
    if (handler.method.methodKind === 'unary') endUnlessReceived(req, res, o.requestMs);
    handler(request)
      .then((response) => {
        const supported = SUPPORTED[response.status];
        if (supported) return respond(res, response.status, supported);
        const isUnreadable =
          values.get(IS_READING) && response.trailer?.get('grpc-status') === String(Code.Internal);
        if (isUnreadable) response.trailer?.set('grpc-status', String(Code.InvalidArgument));
        if (response.trailer) encodeMessage(response.trailer);
        return universalResponseToNodeResponse(response, res);
      })
      .catch((error: unknown) => {
        const isDisconnected =
          res.stream.destroyed || ConnectError.from(error).code === Code.Aborted;
        if (!isDisconnected) o.onSendFailed(handler.requestPath, error);
      });
  };
}

/**
 * Encodes only what gRPC requires in an error text: `%` and what is not printable ASCII. The library also encodes
 * punctuation, and grpc-js does not decode that.
 */
function encodeMessage(trailer: Headers): void {
  const text = decodeURIComponent(trailer.get('grpc-message') ?? '');
  if (text) trailer.set('grpc-message', text.replace(/[^ -$&-~]/gu, encodeURIComponent));
}

/** Returns undefined for a request whose authority is not part of a URL, for example because of its port. */
function requestOf(
  req: Http2ServerRequest,
  res: Http2ServerResponse,
  values: ContextValues,
): UniversalServerRequest | undefined {
  try {
    return universalRequestFromNodeRequest(req, res, undefined, values);
  } catch {
    return undefined;
  }
}

/** Removes a deadline that is too far away for a timer. The timer would end the call at once. */
function dropLongDeadline(header: Headers): void {
  const { timeoutMs = 0 } = parseTimeout(header.get('grpc-timeout'), MAX_TIMER_MS);
  if (timeoutMs > MAX_TIMER_MS) header.delete('grpc-timeout');
}

/** What a client of another protocol must send instead, by the status of the response. */
const SUPPORTED: Readonly<Record<number, OutgoingHttpHeaders>> = {
  405: { allow: 'POST' },
  415: { 'accept-post': 'application/grpc, application/grpc+proto, application/grpc+json' },
};

function respond(res: Http2ServerResponse, status: number, headers?: OutgoingHttpHeaders): void {
  res.writeHead(status, headers);
  res.end();
}

function respondUnknown(req: Http2ServerRequest, res: Http2ServerResponse): void {
  const type = req.headers['content-type'];
  if (type?.startsWith('application/grpc')) {
    res.setHeader('content-type', type);
    res.addTrailers({ 'grpc-status': Code.Unimplemented, 'grpc-message': 'unknown method' });
    respond(res, 200);
  } else respond(res, 404);
}

/** Ends the stream if the request does not arrive in time. Otherwise it would hold a permit and memory for ever. */
function endUnlessReceived(req: Http2ServerRequest, res: Http2ServerResponse, ms: number): void {
  const timer = setTimeout(() => {
    if (!req.complete) res.stream.close(constants.NGHTTP2_CANCEL);
  }, ms);
  res.stream.once('close', () => clearTimeout(timer));
}
