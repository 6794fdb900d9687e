import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Served } from '../../services/contract/versions.ts';
import { addressOf, type ClientIp } from '../auth/client-ip.ts';
import type { Rejection } from '../auth/rejection.ts';

/** The data of one request and its response, for logs, metrics and the trace. */
export interface Exchange {
  readonly requestId: string;
  readonly startedAt: number;
  /** The caller's IP address; an IPv6 address as its /64. */
  readonly address: string;
  /** The operation of REST, of the sign-in or of MCP; undefined for other paths. */
  operation?: string;
  /** The API version that serves the request, and its headers; undefined for paths without a version. */
  served?: Served;
  shopId?: bigint;
  /** Key id, client id or user id of the caller. */
  actorId?: string;
  /** Why the credential was rejected. */
  rejection?: Rejection;
  /** Number of bytes of the request body that were read: as sent or after decompression, whichever are more. */
  bodyBytes: number;
  /** Charges a large response to the rate limit of the caller. Undefined until the caller is known. */
  chargeResponse?: (bytes: number) => void;
  /**
   * True for a request that was shed because too many were in flight. `in-flight.ts` logs only the number of shed
   * requests.
   */
  isShed?: boolean;
}

const SAFE_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** Returns the caller's `X-Request-Id` if it is safe for logs and headers, else a new id. */
export function requestIdOf(req: IncomingMessage): string {
  const id = req.headers['x-request-id'];
  return typeof id === 'string' && SAFE_ID.test(id) ? id : randomUUID();
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

/** Matches a path whose characters never need percent-encoding. */
const PLAIN = /^[\w\-.~/]*$/;

/**
 * Normalizes the target of a request under `/api`: decodes each part of its path once and encodes it again. Express
 * compares paths byte by byte, so `/%61pi/v1` must become `/api/v1`. Other targets are returned unchanged.
 */
export function apiTarget(target: string): string {
  // Proxies send absolute targets (RFC 9112, 3.2.2). The router of Express needs the same origin in the new target.
  const [origin = ''] = /^https?:\/\/[^/?#]*/i.exec(target) ?? [];
  const [path = '', ...query] = target.slice(origin.length).split('?');
  if (PLAIN.test(path)) return target;
  const parts = path.split('/').map(decodeOnce);
  if (parts[1] !== 'api') return target;
  return origin + [parts.map(encodeURIComponent).join('/'), ...query].join('?');
}

/** Returns a part unchanged when its percent-encoding is malformed. No object has such an id. */
function decodeOnce(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
