import type {
  JSONRPCMessage,
  JSONRPCRequest,
  Server,
  Transport,
} from '@modelcontextprotocol/server';
import { ClientGone } from '../rest/body.ts';

/** Longer than any tool takes. Milliseconds. */
const DEADLINE_MS = 60_000;

/**
 * Passes one request to an MCP server that serves only this request, and returns its response.
 *
 * @throws ClientGone; Error when there is no response in time.
 */
export async function handleSingleRequest(
  server: Server,
  request: JSONRPCRequest,
  signal: AbortSignal,
): Promise<JSONRPCMessage> {
  const answered = Promise.withResolvers<JSONRPCMessage>();
  const transport: Transport = {
    start: async () => {},
    close: async () => {},
    send: async (message) => {
      // Only responses are expected. Notifications would need a stream, which this transport does not have.
      if ('result' in message || 'error' in message) answered.resolve(message);
    },
  };
  const late = () => answered.reject(new Error('an MCP request got no response in time'));
  const gone = () => answered.reject(new ClientGone());
  const timer = setTimeout(late, DEADLINE_MS);
  signal.addEventListener('abort', gone, { once: true });
  try {
    await server.connect(transport);
    transport.onmessage?.(request);
    return await answered.promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', gone);
  }
}
