import type { IncomingHttpHeaders } from 'node:http';
import {
  classifyInboundRequest,
  createMcpHandler,
  isInitializeRequest,
  isJSONRPCNotification,
  isJSONRPCRequest,
  isJSONRPCResponse,
  type Server,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/server';
import type { Logger } from '../../services/platform/log.ts';
import { ClientGone } from '../rest/body.ts';
import type { Answer } from '../rest/respond.ts';
import { askAlone } from './ask-alone.ts';
import { idOf, RPC, rpcError } from './rpc-error.ts';

/** A POST whose body is parsed, and the server that is to answer it. */
export interface Incoming {
  readonly headers: IncomingHttpHeaders;
  readonly url: string;
  readonly message: object;
  /** Makes the server of this request. */
  server(): Server;
  /** Ends when the client goes away. */
  readonly signal: AbortSignal;
}

export interface Protocol {
  /** A `Response` is the library's own, which may be a stream. @throws ClientGone. */
  answer(incoming: Incoming): Promise<Answer | Response>;
  close(): Promise<void>;
}

/**
 * Answers one message in whichever era of the protocol it was written: revision 2026-07-28, where each
 * request stands alone, or those up to 2025-11-25, here without sessions. Either way the answer is plain
 * JSON, since no tool says anything before its result.
 */
export function createProtocol(logger: Logger): Protocol {
  // The library hands its factory the very request that it was given.
  const servers = new WeakMap<Request, () => Server>();
  const modern = createMcpHandler(
    ({ requestInfo }) => {
      const make = requestInfo && servers.get(requestInfo);
      if (!make) throw new Error('a request came without its server');
      return make();
    },
    { legacy: 'reject', onerror: (error) => logger.debug({ err: error }, 'mcp request refused') },
  );
  return {
    async answer(incoming) {
      if (incoming.signal.aborted) throw new ClientGone();
      if (isOlder(incoming)) return answerOlder(incoming);
      const { url, message, signal } = incoming;
      const headers = headersOf(incoming.headers);
      const request = new Request(url, { method: 'POST', headers, signal });
      servers.set(request, () => incoming.server());
      return modern.fetch(request, { parsedBody: message });
    },
    close: () => modern.close(),
  };
}

/** The library's own judgement, so that it and we never disagree about the era of a message. */
function isOlder({ headers, message }: Incoming): boolean {
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
  return kind === 'legacy';
}

/** The library's transport for this writes web streams and judges each message four times over. */
async function answerOlder({ headers, message, server, signal }: Incoming): Promise<Answer> {
  const version = headers['mcp-protocol-version'];
  const isSupported =
    version === undefined || SUPPORTED_PROTOCOL_VERSIONS.includes(String(version));
  // A handshake negotiates whatever its header says.
  if (!isSupported && !isInitializeRequest(message)) {
    const text = `Bad request: unsupported protocol version. Supported: ${SUPPORTED_PROTOCOL_VERSIONS.join(', ')}.`;
    return rpcError(400, { code: RPC.refused, message: text, id: idOf(message) });
  }
  if (isJSONRPCRequest(message)) {
    const json = await askAlone(server(), message, signal);
    return { status: 200, headers: {}, body: { contentType: 'application/json', json } };
  }
  // Nothing here waits for what a client tells by itself.
  if (isJSONRPCNotification(message) || isJSONRPCResponse(message))
    return { status: 202, headers: {} };
  const text = 'Invalid request: not a JSON-RPC message.';
  return rpcError(400, { code: RPC.invalidRequest, message: text, id: idOf(message) });
}

/** What the protocol reads. `Accept` is filled in: a client that names one type, or none, gets JSON too. */
function headersOf(given: IncomingHttpHeaders): Headers {
  const headers = new Headers({ accept: 'application/json, text/event-stream' });
  for (const [name, value] of Object.entries(given)) {
    if (name === 'content-type' || name.startsWith('mcp-')) headers.set(name, String(value));
  }
  return headers;
}
