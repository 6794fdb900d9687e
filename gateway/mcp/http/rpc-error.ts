import type { HttpResponse } from '../../http/respond.ts';

/** Error codes of JSON-RPC 2.0, and our own code for the rate limit. */
export const RPC = {
  parseError: -32700,
  invalidRequest: -32600,
  invalidParams: -32602,
  internal: -32603,
  unauthorized: -32001,
  rejected: -32000,
  rateLimited: 42900,
} as const;

/** The id of a request; null when it is absent or neither a string nor a number. */
export function idOf(message: unknown): string | number | null {
  const id: unknown = typeof message === 'object' && message ? Reflect.get(message, 'id') : null;
  return typeof id === 'string' || typeof id === 'number' ? id : null;
}

/** A response with a JSON-RPC error, for a request that never reaches the MCP server. */
export function rpcError(
  status: number,
  error: { readonly code: number; readonly message: string; readonly id?: string | number | null },
  headers: Readonly<Record<string, string>> = {},
): HttpResponse {
  const { code, message, id = null } = error;
  const json = { jsonrpc: '2.0', id, error: { code, message } };
  return { status, headers, body: { contentType: 'application/json', json } };
}
