import {
  type GetPromptResult,
  type Implementation,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  TRACEPARENT_META_KEY,
} from '@modelcontextprotocol/server';
import { inSpan, type Telemetry } from '../../services/platform/telemetry.ts';
import { printable } from '../../services/platform/text.ts';
import type { createCatalogue } from './catalogue.ts';
import { INSTRUCTIONS } from './instructions.ts';
import { promptProblem, promptsFor } from './prompts.ts';
import { RESOURCES, readResource } from './resources.ts';
import { runTool, type ToolRunner } from './run-tool.ts';
import type { ToolContext } from './tool.ts';
import type { ToolWork } from './tool-work.ts';
import { toolNamed } from './tools.ts';

/** The parts that all requests share. */
export interface ServerParts extends ToolRunner {
  readonly info: Implementation;
  readonly catalogue: ReturnType<typeof createCatalogue>;
  readonly telemetry: Pick<Telemetry, 'tracer'>;
}

/** The caller of one request, and the values of the request for logs. */
export interface Caller {
  readonly context: ToolContext;
  readonly requestId: string;
  readonly source: string;
  /** Arguments of a tool call that are not an object. The tool reports them as invalid. */
  readonly invalidArguments: unknown;
  readonly work: Pick<ToolWork, 'run'>;
}

/** Maximum length in an error text of a name that the caller sent. Characters. */
const NAME_MAX = 100;

/** How long clients may cache lists. A changed role is visible after this time. Milliseconds. */
const LIST_TTL_MS = 60_000;
const DISCOVER_TTL_MS = 300_000;
export const PRIVATE_LIST = { ttlMs: LIST_TTL_MS, cacheScope: 'private' } as const;
const PUBLIC = { ttlMs: DISCOVER_TTL_MS, cacheScope: 'public' } as const;

const OPTIONS = {
  // The server never pushes anything. So it has no `listChanged`, no logging and no subscriptions.
  capabilities: { tools: {}, prompts: {}, resources: {} },
  instructions: INSTRUCTIONS,
  cacheHints: {
    'tools/list': PRIVATE_LIST,
    'prompts/list': PRIVATE_LIST,
    'resources/list': PUBLIC,
    'resources/templates/list': PUBLIC,
    'resources/read': PUBLIC,
    'server/discover': { ttlMs: DISCOVER_TTL_MS, cacheScope: 'private' },
  },
} as const;

/**
 * Creates the MCP server for one request. There are no sessions, so any replica can handle any request. `parts` has
 * what all requests share, because it is expensive to create (schemas, lists).
 */
export function createServer(parts: ServerParts, caller: Caller): Server {
  const server = new Server(parts.info, OPTIONS);
  const { role, isReadOnly } = caller.context.user;
  const catalogue = isReadOnly ? parts.catalogue.readOnly : parts.catalogue;
  server.setRequestHandler('tools/list', () => ({
    tools: [...catalogue[role]],
    // These fields belong to the newer protocol revision. Here they are sent to clients of the older revisions, too.
    ...PRIVATE_LIST,
  }));
  server.setRequestHandler('tools/call', ({ params }) => {
    const tool = toolNamed(params.name);
    if (!tool) throw invalidParams(`Unknown tool: ${printable(params.name, NAME_MAX)}`);
    const traceparent: unknown = params._meta?.[TRACEPARENT_META_KEY];
    const call = { tool, args: caller.invalidArguments ?? params.arguments, ...caller };
    return inSpan(
      parts.telemetry.tracer,
      {
        name: `tools/call ${tool.name}`,
        ...(isTraceparent(traceparent) && { traceparent }),
        attributes: { 'mcp.tool.name': tool.name },
      },
      () => caller.work.run(() => runTool(parts, call)),
    );
  });
  server.setRequestHandler('prompts/list', () => ({
    prompts: promptsFor(role).map((prompt) => ({
      name: prompt.name,
      title: prompt.title,
      description: prompt.description,
      arguments: prompt.arguments.map((argument) => ({ ...argument })),
    })),
  }));
  server.setRequestHandler('prompts/get', ({ params }): GetPromptResult => {
    const prompt = promptsFor(role).find(({ name }) => name === params.name);
    if (!prompt) throw invalidParams(`Unknown prompt: ${printable(params.name, NAME_MAX)}`);
    const args = params.arguments ?? {};
    const problem = promptProblem(prompt, args);
    if (problem !== undefined) throw invalidParams(problem);
    const content = { type: 'text', text: prompt.text(args) } as const;
    return { description: prompt.description, messages: [{ role: 'user', content }] };
  });
  server.setRequestHandler('resources/list', () => ({ resources: [...RESOURCES] }));
  server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: [] }));
  server.setRequestHandler('resources/read', ({ params }) => readResource(params.uri));
  return server;
}

/**
 * The form of `traceparent` (W3C Trace Context, 3.2). Other values are ignored, because they would separate the call
 * from the trace of its request.
 */
const TRACEPARENT = /^[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/;

function isTraceparent(value: unknown): value is string {
  return typeof value === 'string' && TRACEPARENT.test(value);
}

function invalidParams(text: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, text);
}
