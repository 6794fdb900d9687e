import type { IncomingHttpHeaders } from 'node:http';
import {
  classifyInboundRequest,
  createMcpHandler,
  isInitializeRequest,
  isJSONRPCNotification,
  isJSONRPCRequest,
  isJSONRPCResponse,
  type JSONRPCMessage,
  type JSONRPCRequest,
  type Server,
  SUPPORTED_PROTOCOL_VERSIONS,
  type Transport,
} from '@modelcontextprotocol/server';
import type { Logger } from '../../../services/platform/telemetry/log.ts';
import { ClientGone } from '../../http/client-gone.ts';
import type { HttpResponse } from '../../http/respond.ts';
import { idOf, RPC, rpcError } from './rpc-error.ts';

/** A POST with a parsed body, and the MCP server for it. */
export interface ParsedRequest {
  readonly headers: IncomingHttpHeaders;
  readonly url: string;
  readonly message: object;
  readonly kind: MessageKind;
  /** Creates the MCP server for this request. */
  server(): Server;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
}

export interface Protocol {
  /**
   * Handles one request. A result of the type `Response` comes from the MCP library and may be a stream. @throws
   * ClientGone.
   */
  handle(parsed: ParsedRequest): Promise<HttpResponse | Response>;
  close(): Promise<void>;
}

/**
 * Handles messages of all protocol revisions: of 2026-07-28, which has no sessions, and of the revisions up to
 * 2025-11-25, also without sessions. Responses are plain JSON and not streams, because no tool sends anything before
 * its result.
 */
export function createProtocol(logger: Logger): Protocol {
  // The library calls this function with the same `Request` object that `handle` passes to it. So the object finds the
  // right server.
  const servers = new WeakMap<Request, () => Server>();
  const modern = createMcpHandler(
    ({ requestInfo }) => {
      const make = requestInfo && servers.get(requestInfo);
      if (!make) throw new Error('no server was set for the request');
      return make();
    },
    { legacy: 'reject', onerror: (error) => logger.debug({ err: error }, 'mcp request rejected') },
  );
  return {
    async handle(parsed) {
      if (parsed.signal.aborted) throw new ClientGone();
      if (parsed.kind === 'legacy') return handleLegacy(parsed);
      const { url, message, signal } = parsed;
      const headers = headersForLibrary(parsed.headers);
      const request = new Request(url, { method: 'POST', headers, signal });
      servers.set(request, () => parsed.server());
      return modern.fetch(request, { parsedBody: message });
    },
    close: () => modern.close(),
  };
}

/** `legacy`: revisions up to 2025-11-25. `modern`: 2026-07-28. `reject`: neither, and the MCP library says why. */
export type MessageKind = ReturnType<typeof classifyInboundRequest>['kind'];

export function kindOf(headers: IncomingHttpHeaders, message: object): MessageKind {
  const header = (name: string) => {
    const value = headers[name];
    return typeof value === 'string' ? value : undefined;
  };
  const version = header('mcp-protocol-version');
  const method = header('mcp-method');
  const name = header('mcp-name');
  const { kind } = classifyInboundRequest({
    httpMethod: 'POST',
    body: message,
    ...(version !== undefined && { protocolVersionHeader: version }),
    ...(method !== undefined && { mcpMethodHeader: method }),
    ...(name !== undefined && { mcpNameHeader: name }),
  });
  return kind;
}

/**
 * Handles a message of the older revisions. It replaces the library's transport, which writes web streams and validates
 * each message four times.
 */
async function handleLegacy({
  headers,
  message,
  server,
  signal,
}: ParsedRequest): Promise<HttpResponse> {
  // An empty header is an absent one.
  const version = headers['mcp-protocol-version'] || undefined;
  const isSupported =
    version === undefined || SUPPORTED_PROTOCOL_VERSIONS.includes(String(version));
  // Do not check the header of an initialize request, because this request negotiates the version.
  if (!isSupported && !isInitializeRequest(message)) {
    const text = `Bad request: unsupported protocol version. Supported: ${SUPPORTED_PROTOCOL_VERSIONS.join(', ')}.`;
    return rpcError(400, { code: RPC.rejected, message: text, id: idOf(message) });
  }
  if (isJSONRPCRequest(message)) {
    const json = await handleSingleRequest(server(), message, signal);
    return { status: 200, headers: {}, body: { contentType: 'application/json', json } };
  }
  // Accept and ignore notifications and responses of clients.
  if (isJSONRPCNotification(message) || isJSONRPCResponse(message))
    return { status: 202, headers: {} };
  const text = 'Invalid request: not a JSON-RPC message.';
  return rpcError(400, { code: RPC.invalidRequest, message: text, id: idOf(message) });
}

/** Time limit of a request. It is longer than any tool call. Milliseconds. */
const TIMEOUT_MS = 60_000;

/**
 * Passes one request to an MCP server that serves only this request, and returns its response.
 *
 * @throws ClientGone; Error when there is no response in time.
 */
async function handleSingleRequest(
  server: Server,
  request: JSONRPCRequest,
  signal: AbortSignal,
): Promise<JSONRPCMessage> {
  const response = Promise.withResolvers<JSONRPCMessage>();
  const transport: Transport = {
    start: async () => {},
    close: async () => {},
    send: async (message) => {
      // Ignore notifications of the server. They would need a stream, which this transport does not have, and no tool
      // sends them.
      if ('result' in message || 'error' in message) response.resolve(message);
    },
  };
  const onTimeout = () => response.reject(new Error('an MCP request got no response in time'));
  const onDisconnect = () => response.reject(new ClientGone());
  const timer = setTimeout(onTimeout, TIMEOUT_MS);
  signal.addEventListener('abort', onDisconnect, { once: true });
  try {
    await server.connect(transport);
    transport.onmessage?.(request);
    return await response.promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onDisconnect);
  }
}

/**
 * Returns the headers that the MCP library gets. `Accept` has a fixed value, so that clients that send another value
 * get JSON too.
 */
function headersForLibrary(received: IncomingHttpHeaders): Headers {
  const headers = new Headers({ accept: 'application/json, text/event-stream' });
  for (const [name, value] of Object.entries(received)) {
    if (name === 'content-type' || name.startsWith('mcp-')) headers.set(name, String(value));
  }
  return headers;
}
