import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  RELATED_TASK_META_KEY,
  specTypeSchemas,
} from '@modelcontextprotocol/server';
import { JSON_DEPTH_MAX } from '../../../services/contract/limits.ts';
import type { BodyCharge } from '../../auth/body-charge.ts';
import { HttpError } from '../../errors.ts';
import { parseJson } from '../../http/json.ts';
import type { BodyBounds } from '../../http/receive-body.ts';
import { receiveBody } from '../../http/receive-body.ts';
import type { HttpResponse } from '../../http/respond.ts';
import { type Issue, plainProblemOf } from './problems.ts';
import type { MessageKind } from './protocol.ts';
import { idOf, RPC, rpcError } from './rpc-error.ts';

/** Maximum body size after decompression. A call may contain thirty notes of maximum length. Bytes. */
const BODY_BYTES_MAX = 8 * 1024 * 1024;
/**
 * Maximum number of entries in the JSON of a message. The MCP library validates every entry, so hundreds of thousands
 * would block the event loop for seconds. The largest valid call has thirty dispositions with a hundred images each.
 */
const ENTRIES_MAX = 10_000;
/** Numbers are parsed as plain numbers and not exactly, because the MCP library supports no others. */
const BOUNDS = { maxDepth: JSON_DEPTH_MAX, maxEntries: ENTRIES_MAX, exactNumbers: false };

export type ReadMessage =
  | {
      readonly ok: true;
      readonly message: object;
      /** Name for logs and metrics, such as `mcp tools/call`; `mcp other` for an unknown method. */
      readonly operation: string;
    }
  | { readonly ok: false; readonly response: HttpResponse };

/**
 * Reads the JSON-RPC message of a POST. Rejects batches in every protocol revision.
 *
 * @throws ClientGone
 */
export async function readMessage(
  req: IncomingMessage,
  res: ServerResponse,
  o: Omit<BodyBounds, 'maxBytes'> & { readonly charge: BodyCharge },
): Promise<ReadMessage> {
  try {
    const bytes = await receiveBody(req, res, { ...o, maxBytes: BODY_BYTES_MAX });
    if (!bytes) return rejected(400, RPC.parseError, 'Parse error: the body is missing.');
    const message = withoutNulls(parseJson(bytes, BOUNDS));
    if (Array.isArray(message)) {
      return rejected(400, RPC.invalidRequest, 'Invalid request: batches are not supported.');
    }
    if (typeof message !== 'object' || message === null) {
      return rejected(400, RPC.invalidRequest, 'Invalid request: the body must be an object.');
    }
    const problem = envelopeProblem({ ...message });
    if (problem !== undefined) {
      return rejected(400, RPC.invalidRequest, `Invalid request: ${problem}.`, idOf(message));
    }
    return { ok: true, message: withExactDetails(message, bytes), operation: operationOf(message) };
  } catch (error) {
    if (!(error instanceof HttpError)) throw error;
    const { status, problem } = error.error;
    if (status === 429) {
      const limited = { code: RPC.rateLimited, message: problem.detail };
      return { ok: false, response: rpcError(status, limited, error.headers) };
    }
    if (status === 503) {
      const failure = { code: RPC.internal, message: problem.detail };
      return { ok: false, response: rpcError(status, failure, error.headers) };
    }
    return status === 400
      ? rejected(status, RPC.parseError, `Parse error: ${problem.detail}`)
      : rejected(status, RPC.rejected, problem.detail);
  }
}

/**
 * Removes parameters that are null, at every depth except in the arguments of a tool. The protocol has no null, but many
 * programs write it for an absent value.
 */
function withoutNulls(message: unknown): unknown {
  if (typeof message !== 'object' || message === null || Array.isArray(message)) return message;
  const { params, ...rest }: Part = { ...message };
  if (params === null || params === undefined) return rest;
  if (typeof params !== 'object' || Array.isArray(params)) return message;
  const isCall = methodOf(message) === 'tools/call';
  const kept = Object.entries(params).map(([name, value]) =>
    isCall && name === 'arguments' ? [name, value ?? undefined] : [name, pruned(value)],
  );
  return { ...rest, params: Object.fromEntries(kept.filter(([, value]) => value !== undefined)) };
}

/** The value without the fields that are null; undefined for null. */
function pruned(value: unknown): unknown {
  if (value === null) return undefined;
  if (typeof value !== 'object' || Array.isArray(value)) return value;
  const fields = Object.entries(value).map(([name, part]) => [name, pruned(part)]);
  return Object.fromEntries(fields.filter(([, part]) => part !== undefined));
}

/**
 * Parses the details of a call of `process_return` again, with exact numbers. The service stores every digit, as with
 * REST.
 */
function withExactDetails(message: object, bytes: Uint8Array): object {
  if (methodOf(message) !== 'tools/call') return message;
  const [params, args] = partsOf(message);
  if (params.name !== 'process_return' || args.details === undefined) return message;
  const [, exact] = partsOf(Object(parseJson(bytes, { ...BOUNDS, exactNumbers: true })));
  const exactArgs = { ...args, details: exact.details };
  return { ...message, params: { ...params, arguments: exactArgs } };
}

type Part = Readonly<Record<string, unknown>>;

/**
 * Returns the parameters and the arguments of a call. Returns an empty object in place of a part that is not an object.
 */
function partsOf(message: object): [params: Part, args: Part] {
  const params: Part = objectOf(Reflect.get(message, 'params'));
  return [params, objectOf(params.arguments)];
}

function objectOf(value: unknown): Part {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

/** The method of a message; undefined when the message has none. */
export function methodOf(message: object): string | undefined {
  const method: unknown = Reflect.get(message, 'method');
  return typeof method === 'string' ? method : undefined;
}

/** Methods that metrics count by name. All other methods count as `mcp other`, because callers can send any name. */
export const MCP_METHODS: ReadonlySet<string> = new Set([
  'initialize',
  'ping',
  'server/discover',
  'subscriptions/listen',
  'tools/list',
  'tools/call',
  'prompts/list',
  'prompts/get',
  'resources/list',
  'resources/templates/list',
  'resources/read',
  'notifications/initialized',
  'notifications/cancelled',
]);

function operationOf(message: object): string {
  const method = methodOf(message) ?? '';
  return MCP_METHODS.has(method) ? `mcp ${method}` : 'mcp other';
}

/** What is wrong with the parts that all messages have; undefined when nothing is. */
function envelopeProblem({ jsonrpc, method, id, ...rest }: Part): string | undefined {
  if (jsonrpc !== '2.0') return 'jsonrpc must be "2.0"';
  if (method === undefined && ('result' in rest || 'error' in rest)) return undefined;
  if (typeof method !== 'string') return 'method must be a text';
  const isId = id === undefined || typeof id === 'string' || Number.isSafeInteger(id);
  return isId ? undefined : 'id must be a text or a whole number, and a notification has none';
}

function rejected(
  status: number,
  code: number,
  message: string,
  id: string | number | null = null,
): ReadMessage {
  return { ok: false, response: rpcError(status, { code, message, id }) };
}

/** The schema of each request that has parameters, by its method. */
const REQUESTS: ReadonlyMap<unknown, keyof typeof specTypeSchemas> = new Map([
  ['initialize', 'InitializeRequest'],
  ['ping', 'PingRequest'],
  ['tools/list', 'ListToolsRequest'],
  ['tools/call', 'CallToolRequest'],
  ['prompts/list', 'ListPromptsRequest'],
  ['prompts/get', 'GetPromptRequest'],
  ['resources/list', 'ListResourcesRequest'],
  ['resources/templates/list', 'ListResourceTemplatesRequest'],
  ['resources/read', 'ReadResourceRequest'],
]);

/** Methods that the revision 2026-07-28 does not have. */
const REMOVED: ReadonlySet<string | undefined> = new Set(['initialize', 'ping']);

/** The schemas of values in `_meta`, which the revision 2026-07-28 requires in each request. */
const META: readonly (readonly [string, keyof typeof specTypeSchemas])[] = [
  [CLIENT_INFO_META_KEY, 'Implementation'],
  [CLIENT_CAPABILITIES_META_KEY, 'ClientCapabilities'],
];

/** The other values in `_meta` that the library checks. */
const RULED_META: ReadonlySet<string> = new Set(['progressToken', RELATED_TASK_META_KEY]);

/**
 * Returns the error response to a request whose parameters break the rules of the protocol. Without it, the MCP library
 * would respond with the issues of its schemas, and with the code of an internal error. A method that the revision of
 * the message does not have is unknown, whatever its parameters are.
 */
export function parametersError(message: object, kind: MessageKind): HttpResponse | undefined {
  const method = methodOf(message);
  const name = REQUESTS.get(method);
  if (name === undefined || !('id' in message)) return undefined;
  if (kind === 'modern' && REMOVED.has(method)) return undefined;
  const [params] = partsOf(message);
  const meta = objectOf(params._meta);
  const envelope = META.filter(([key]) => Object.hasOwn(meta, key)).flatMap(([key, schema]) =>
    issuesOf(schema, meta[key]).map(({ path = [], ...issue }) => ({
      ...issue,
      path: ['params', '_meta', key, ...path],
    })),
  );
  // Other values in `_meta` have no rules, and there may be thousands.
  const known = Object.entries(meta).filter(([key]) => RULED_META.has(key));
  const checked = { ...message, params: { ...params, _meta: Object.fromEntries(known) } };
  const hasMeta = Object.keys(meta).length > 0;
  const [issue] = [...issuesOf(name, hasMeta ? checked : message), ...envelope];
  if (!issue) return undefined;
  const text = `Invalid parameters: ${plainProblemOf(issue, message, 'the request')}`;
  const status = issue === envelope[0] ? 400 : 200;
  return rpcError(status, { code: RPC.invalidParams, message: text, id: idOf(message) });
}

function issuesOf(name: keyof typeof specTypeSchemas, value: unknown): readonly Issue[] {
  const checked = specTypeSchemas[name]['~standard'].validate(value);
  return ('issues' in checked && checked.issues) || [];
}

/** A message that the MCP library accepts, and separately the arguments that it would reject. */
export interface CheckedMessage {
  readonly message: object;
  /** Arguments of a tool call that are not an object. Undefined when the arguments are valid or absent. */
  readonly invalidArguments: unknown;
}

/**
 * Removes arguments that are not an object from a tool call, so that the tool can report them in its result. An
 * assistant reads the result of a tool, but may not see a protocol error.
 */
export function removeInvalidArguments(message: object): CheckedMessage {
  const params: unknown = Reflect.get(message, 'params');
  const isCall = Reflect.get(message, 'method') === 'tools/call';
  if (!isCall || typeof params !== 'object' || params === null) {
    return { message, invalidArguments: undefined };
  }
  const args: unknown = Reflect.get(params, 'arguments');
  const isObject = typeof args === 'object' && args !== null && !Array.isArray(args);
  if (args === undefined || isObject) return { message, invalidArguments: undefined };
  return {
    message: { ...message, params: { ...params, arguments: {} } },
    invalidArguments: args,
  };
}
