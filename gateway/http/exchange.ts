import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
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
  /** The API version that serves the request. */
  version?: string;
  shopId?: bigint;
  /** Key id, client id or user id of the caller. */
  actorId?: string;
  /** Why the credential was rejected. */
  refusal?: Refusal;
  /** The version is past its support window, and is served only because there is no newer one. */
  pastWindow?: boolean;
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
