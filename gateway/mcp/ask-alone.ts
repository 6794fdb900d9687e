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
 * Hands one request to a server that nobody else uses, and answers its response: a transport whose life
 * is one question.
 *
 * @throws ClientGone; Error when there is no answer in time.
 */
export async function askAlone(
  server: Server,
  request: JSONRPCRequest,
  signal: AbortSignal,
): Promise<JSONRPCMessage> {
  const answered = Promise.withResolvers<JSONRPCMessage>();
  const transport: Transport = {
    start: async () => {},
    close: async () => {},
    send: async (message) => {
      // Nothing else is sent; if it were, there is no stream for it to go by.
      if ('result' in message || 'error' in message) answered.resolve(message);
    },
  };
  const late = () => answered.reject(new Error('an mcp request got no answer in time'));
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
