import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { addressOf, type ClientIp } from '../auth/client-ip.ts';
import type { Refusal } from '../auth/refusal.ts';

/** What is known about one request and its answer, for logs, metrics and the trace. */
export interface Exchange {
  readonly requestId: string;
  readonly startedAt: number;
  /** The caller's, IPv6 as its /64. */
  readonly address: string;
  /** The operation of the API, of sign-in or of MCP; undefined for everything else. */
  operation?: string;
  /** The API version that serves. */
  version?: string;
  shopId?: bigint;
  /** Key id, client id or user id of the caller. */
  actorId?: string;
  /** Why the caller was not let in. */
  refusal?: Refusal;
  /** The version is past its window, and kept only because there is no newer one. */
  pastWindow?: boolean;
  /** Bytes of the body that were read, inflated. */
  bodyBytes: number;
  /** Takes what a large answer costs from the caller's rate limit; set once the caller is known. */
  chargeAnswer?: (bytes: number) => void;
  /** Refused because too many were in flight: counted, and not logged one by one. */
  isShed?: boolean;
}

const SANE_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** A caller's own `X-Request-Id` is kept when it is harmless in logs and headers. */
export function requestIdOf(req: IncomingMessage): string {
  const given = req.headers['x-request-id'];
  return typeof given === 'string' && SANE_ID.test(given) ? given : randomUUID();
}

export function newExchange(req: IncomingMessage, clientIp: ClientIp): Exchange {
  const requestId = requestIdOf(req);
  const address = addressOf(clientIp, req);
  return { requestId, address, startedAt: performance.now(), bodyBytes: 0 };
}

/** How many `Host` fields a request has: of several, `headers` shows the first alone. */
export function hostsOf({ rawHeaders }: IncomingMessage): number {
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() === 'host') hosts += 1;
  }
  return hosts;
}
