import {
  createMcpHandler,
  isLegacyRequest,
  type Server,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import type { Logger } from '../../services/platform/log.ts';

/** A POST whose body is parsed, and the server that is to answer it. */
export interface Incoming {
  /** As received; `Accept` is filled in here. */
  readonly headers: Headers;
  readonly url: string;
  readonly message: object;
  /** Makes the server of this request. */
  server(): Server;
  /** Ends when the client goes away. */
  readonly signal: AbortSignal;
}

export interface Protocol {
  answer(incoming: Incoming): Promise<Response>;
  close(): Promise<void>;
}

/** The library wants both; a client that names one, or none, gets JSON all the same. */
const ACCEPT = 'application/json, text/event-stream';

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
      const { headers, url, message, signal } = incoming;
      headers.set('accept', ACCEPT);
      const request = new Request(url, { method: 'POST', headers, signal });
      const options = { parsedBody: message };
      if (await isLegacyRequest(request, message))
        return legacy(incoming.server(), request, options);
      servers.set(request, () => incoming.server());
      return modern.fetch(request, options);
    },
    close: () => modern.close(),
  };
}

/** One request, one server, one transport: nothing outlives the answer. */
async function legacy(
  server: Server,
  request: Request,
  options: { parsedBody: object },
): Promise<Response> {
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
  await server.connect(transport);
  try {
    return await transport.handleRequest(request, options);
  } finally {
    await server.close();
  }
}
