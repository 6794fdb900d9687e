import type { Answer } from '../rest/respond.ts';

/** Codes of JSON-RPC 2.0, and our own for the rate limit. */
export const RPC = {
  parseError: -32700,
  invalidRequest: -32600,
  internal: -32603,
  unauthorized: -32001,
  refused: -32000,
  rateLimited: 42900,
} as const;

/** A request's id as it may be sent back: a text, a number, or null where there is none that counts. */
export function idOf(message: unknown): string | number | null {
  const id: unknown = typeof message === 'object' && message ? Reflect.get(message, 'id') : null;
  return typeof id === 'string' || typeof id === 'number' ? id : null;
}

/** An answer that is an error of the protocol, decided before the server of the request is made. */
export function rpcError(
  status: number,
  error: { readonly code: number; readonly message: string; readonly id?: string | number | null },
  headers: Readonly<Record<string, string>> = {},
): Answer {
  const { code, message, id = null } = error;
  const json = { jsonrpc: '2.0', id, error: { code, message } };
  return { status, headers, body: { contentType: 'application/json', json } };
}
