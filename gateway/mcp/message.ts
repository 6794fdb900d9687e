import type { IncomingMessage, ServerResponse } from 'node:http';
import { JSON_DEPTH_MAX } from '../../services/contract/limits.ts';
import type { BodyCharge } from '../auth/body-charge.ts';
import { HttpRefusal } from '../errors.ts';
import type { BodyBounds } from '../rest/body.ts';
import { readChargedBody } from '../rest/charged-body.ts';
import { parseJson } from '../rest/json.ts';
import type { Answer } from '../rest/respond.ts';
import { RPC, rpcError } from './rpc-error.ts';

/** Thirty full notes in one call are legal. Bytes, after inflation. */
const BODY_BYTES_MAX = 8 * 1024 * 1024;
/**
 * Far above thirty dispositions of a hundred images each. The protocol's library judges every entry, with
 * or without a rule for it: hundreds of thousands would keep the process from all else for seconds.
 */
const ENTRIES_MAX = 10_000;
/** The protocol's library knows plain numbers only. */
const BOUNDS = { maxDepth: JSON_DEPTH_MAX, maxEntries: ENTRIES_MAX, exactNumbers: false };

export type Read =
  | {
      readonly ok: true;
      readonly message: object;
      /** For logs and metrics: the method, if it is one that we know. */
      readonly operation: string;
    }
  | { readonly ok: false; readonly answer: Answer };

/**
 * Reads the one JSON-RPC message of a POST. Batches, which older revisions of the protocol had, are
 * refused in all of them.
 *
 * @throws ClientGone
 */
export async function readMessage(
  req: IncomingMessage,
  res: ServerResponse,
  o: Omit<BodyBounds, 'maxBytes'> & { readonly charge: BodyCharge },
): Promise<Read> {
  try {
    const bytes = await readChargedBody(req, res, { ...o, maxBytes: BODY_BYTES_MAX });
    if (!bytes) return failed(400, RPC.parseError, 'Parse error: the body is missing.');
    const message = parseJson(bytes, BOUNDS);
    if (Array.isArray(message)) {
      return failed(400, RPC.invalidRequest, 'Invalid request: batches are not supported.');
    }
    if (typeof message !== 'object' || message === null) {
      return failed(400, RPC.invalidRequest, 'Invalid request: the body must be an object.');
    }
    return { ok: true, message: withExactDetails(message, bytes), operation: operationOf(message) };
  } catch (error) {
    if (!(error instanceof HttpRefusal)) throw error;
    const { status, problem } = error.error;
    if (status === 429) {
      const refused = { code: RPC.rateLimited, message: problem.detail };
      return { ok: false, answer: rpcError(status, refused, error.headers) };
    }
    if (status === 503) {
      const failure = { code: RPC.internal, message: problem.detail };
      return { ok: false, answer: rpcError(status, failure, error.headers) };
    }
    return status === 400
      ? failed(status, RPC.parseError, `Parse error: ${problem.detail}`)
      : failed(status, RPC.refused, problem.detail);
  }
}

/**
 * Has the numbers among the details of a `process_return` as they were sent, as at REST: they are passed
 * on, not reckoned with.
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

/** The parameters of a call and its arguments; empty where they are no objects. */
function partsOf(message: object): [params: Part, args: Part] {
  const params: Part = objectOf(Reflect.get(message, 'params'));
  return [params, objectOf(params.arguments)];
}

function objectOf(value: unknown): Part {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

/** The method of a message; undefined where it has none. */
export function methodOf(message: object): string | undefined {
  const method: unknown = Reflect.get(message, 'method');
  return typeof method === 'string' ? method : undefined;
}

/** Methods that metrics count by name: a caller's own words would be endless. */
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

function failed(status: number, code: number, message: string): Read {
  return { ok: false, answer: rpcError(status, { code, message }) };
}
