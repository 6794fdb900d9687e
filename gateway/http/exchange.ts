import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Served } from '../../services/contract/versions.ts';
import { addressOf, type ClientIp } from '../auth/client-ip.ts';
import type { Refusal } from '../auth/refusal.ts';

/** The facts about one request and its response, for logs, metrics and the trace. */
export interface Exchange {
  readonly requestId: string;
  readonly startedAt: number;
  /** The caller's IP address; an IPv6 address as its /64. */
  readonly address: string;
  /** The operation of the API, the sign-in or MCP; undefined for other paths. */
  operation?: string;
  /** The API version that serves the request, and its headers; undefined for other paths. */
  served?: Served;
  shopId?: bigint;
  /** Key id, client id or user id of the caller. */
  actorId?: string;
  /** Why the credential was rejected. */
  refusal?: Refusal;
  /** Bytes of the body that were read, after decompression. */
  bodyBytes: number;
  /** Charges a large response to the caller's rate limit; set when the caller is known. */
  chargeAnswer?: (bytes: number) => void;
  /** Refused because too many requests were in flight. Such requests are counted, and not logged one by one. */
  isShed?: boolean;
}

const SANE_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** The caller's `X-Request-Id` if it is safe for logs and headers, else a new id. */
export function requestIdOf(req: IncomingMessage): string {
  const given = req.headers['x-request-id'];
  return typeof given === 'string' && SANE_ID.test(given) ? given : randomUUID();
}

export function newExchange(req: IncomingMessage, clientIp: ClientIp): Exchange {
  const requestId = requestIdOf(req);
  const address = addressOf(clientIp, req);
  return { requestId, address, startedAt: performance.now(), bodyBytes: 0 };
}

/** The number of `Host` header fields. Node's `headers` contains only the first one. */
export function hostsOf({ rawHeaders }: IncomingMessage): number {
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() === 'host') hosts += 1;
  }
  return hosts;
}

/** Characters that every spelling of a path shares, percent-encoded or not. */
const PLAIN = /^[\w\-.~/]*$/;

/**
 * The target of a request under `/api`, with each part of its path percent-decoded once and encoded in one way, because
 * Express compares the fixed parts of a path byte by byte: `/%61pi/v1` is `/api/v1`. Other targets are not changed.
 */
export function apiTarget(target: string): string {
  // Proxies send absolute targets (RFC 9112, 3.2.2).
  const [path = '', ...query] = target.replace(/^https?:\/\/[^/?#]*/i, '').split('?');
  if (PLAIN.test(path)) return target;
  const parts = path.split('/').map(decodeOnce);
  if (parts[1] !== 'api') return target;
  return [parts.map(encodeURIComponent).join('/'), ...query].join('?');
}

/** A part with malformed percent signs is not decoded; as an id it does not exist. */
function decodeOnce(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
