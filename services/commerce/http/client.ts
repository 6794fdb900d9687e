import { Agent, request } from 'undici';
import { AddressNotAllowed } from '../../platform/outbound/failure.ts';
import { checkUrl, type UrlPolicy } from '../../platform/outbound/guard.ts';
import { dialTcp, openSocket, trustOf } from '../../platform/outbound/open-socket.ts';
import { createResolver, type Resolve } from '../../platform/outbound/resolver.ts';
import { parseRetryAfter, respondedAt } from '../../platform/outbound/retry-after.ts';

/** Time limit until the connection is open and encrypted. Milliseconds. */
const CONNECT_MS = 5_000;
/** Maximum number of connections to the endpoint of one merchant. */
const CONNECTIONS = 8;
/**
 * How long an idle connection stays open. It is shorter than with common servers, so that they do not close it first.
 * Milliseconds.
 */
const KEEP_ALIVE_MS = 4_000;
const MAX_HEADER_BYTES = 16 * 1024;
/** Maximum size of an answer. A page of 500 effects is smaller. Bytes. */
const MAX_ANSWER_BYTES = 512 * 1024;

export interface Answer {
  readonly status: number;
  readonly body: string;
  readonly retryAfter: string | string[] | undefined;
  readonly date: string | string[] | undefined;
}

/** No connection could be opened, so no request was sent. */
export class NotConnected extends Error {
  override readonly name = 'NotConnected';
}

/** The HTTP client for merchants' endpoints. It connects only to public addresses, and follows no redirects. */
export interface CommerceClient {
  /** Sends a POST. @throws AddressNotAllowed; NotConnected with the cause; any error of an open connection. */
  post(o: {
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
    readonly signal: AbortSignal;
  }): Promise<Answer>;
  close(): Promise<void>;
}

export interface CommerceClientOptions {
  readonly policy: UrlPolicy;
  /** How names are resolved (tests). */
  readonly resolve?: Resolve;
  /** The only trusted certificate authority, in PEM (tests). */
  readonly ca?: string;
}

export function createCommerceClient(o: CommerceClientOptions): CommerceClient {
  const opening = {
    policy: o.policy,
    resolve: o.resolve ?? createResolver(),
    dial: dialTcp,
    secureContext: trustOf(o.ca),
  };
  const agent = new Agent({
    allowH2: false,
    connections: CONNECTIONS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAliveMaxTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
    maxResponseSize: MAX_ANSWER_BYTES,
    // The deadline of the call includes all phases, so the client needs no time limits.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect({ protocol, host }, callback) {
      const timing = { dnsMs: null, connectMs: null, tlsMs: null };
      const signal = AbortSignal.timeout(CONNECT_MS);
      openSocket(new URL(`${protocol}//${host}`), opening, { signal, timing }).then(
        (socket) => callback(null, socket),
        (cause: Error) => callback(new NotConnected('no connection', { cause }), null),
      );
    },
  });
  return {
    async post({ url, headers, body, signal }) {
      const check = checkUrl(url, o.policy);
      if (!check.ok) throw new AddressNotAllowed(`it ${check.message}`);
      const answer = await request(check.url, {
        dispatcher: agent,
        method: 'POST',
        headers,
        body,
        signal,
      });
      const { 'retry-after': retryAfter, date } = answer.headers;
      return { status: answer.statusCode, body: await answer.body.text(), retryAfter, date };
    },
    close: () => agent.destroy(),
  };
}

/** Returns the pause that an answer requests, in milliseconds. Undefined when it requests none. */
export function pauseOf({ retryAfter, date }: Answer): number | undefined {
  return parseRetryAfter(retryAfter, respondedAt(date, new Date()));
}
