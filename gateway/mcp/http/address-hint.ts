import type { IncomingMessage, ServerResponse } from 'node:http';
import { addHint } from '../../http/help-headers.ts';

/** Paths under which people look for the MCP server. */
const NEAR_MCP = /^\/(?:mcp|sse|mcp\/(?:sse|messages?))?\/*$/i;

/** Says in `X-Service-Hint` where the MCP server is, when the path looks like its address. */
export function addMcpHint(req: IncomingMessage, res: ServerResponse, publicUrl: string): void {
  const [path = ''] = (req.url ?? '').split('?');
  if (NEAR_MCP.test(path)) addHint(res, `the MCP server is at ${publicUrl}/mcp`);
}
