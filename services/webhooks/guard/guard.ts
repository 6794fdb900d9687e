import { isIP } from 'node:net';
import { WEBHOOK_URL_MAX } from '../../contract/limits.ts';
import { fits } from '../../platform/text.ts';
import { judgeAddress } from './address.ts';
import { judgePort } from './port.ts';

/** Why an address is rejected, as a code. */
export type UrlRefusal =
  | 'too-long'
  | 'malformed'
  | 'scheme'
  | 'credentials'
  | 'fragment'
  | 'reserved-name'
  | 'reserved-address'
  | 'reserved-port'
  | 'port';

export type UrlCheck =
  | {
      readonly ok: true;
      readonly url: URL;
      /** Whether the configuration allows this origin, whatever its address. */
      readonly isAllowedOrigin: boolean;
    }
  | { readonly ok: false; readonly reason: UrlRefusal; readonly message: string };

/** The configured rules for addresses. */
export interface UrlPolicy {
  /** Origins such as `http://127.0.0.1:9000`, or `http://127.0.0.1:*` for any port; never in production. */
  readonly allowedOrigins: readonly string[];
  /** Ports of this stack itself, which an allowed origin does not include. */
  readonly refusedPorts: () => readonly number[];
}

/**
 * Names of inside or unreachable hosts: RFC 6761, RFC 6762, RFC 7686, RFC 8375, RFC 9476, and names of home networks.
 * `.example` and `.test` are allowed, because people use them for experiments and no public name server resolves them.
 */
const RESERVED_NAME =
  /(?:^|\.)(?:localhost|localdomain|local|internal|intranet|private|corp|lan|home|home\.arpa|svc|default|invalid|onion|alt)$/;

/** RFC 1035 section 2.3.4. Characters, without the dot at the end. */
const MAX_NAME = 253;
/** One part of a host name, RFC 1123 section 2.1. Also allows underscores, which some hosts use. */
const LABEL = /^[a-z0-9_-]{1,63}$/;

const MESSAGES: Readonly<Record<UrlRefusal, string>> = {
  'too-long': `must be at most ${WEBHOOK_URL_MAX} characters`,
  malformed: 'must be an absolute https address',
  scheme: 'must be an https address',
  credentials: 'must not contain a user name or password',
  fragment: 'must not contain a fragment',
  'reserved-name': 'must name a public host',
  'reserved-address': 'must not be a private, loopback, link-local or otherwise reserved address',
  'reserved-port': 'must not be one of this service',
  port: 'must have port 443, or one from 1024 up at which no other service usually listens',
};

/**
 * Checks by the text alone whether webhooks may go to a URL. At each connect the addresses of its name are checked too.
 * Used when a subscription is saved and before every attempt.
 *
 * Allowed origins are compared with the text as it was sent, so another spelling of a rejected address stays rejected.
 */
export function judgeUrl(text: string, policy: UrlPolicy): UrlCheck {
  if (!fits(text, WEBHOOK_URL_MAX)) return refused('too-long');
  const origin = originAsSent(text);
  const url = parse(text);
  if (origin === undefined || url === undefined || leadsNowhere(url)) return refused('malformed');
  if (text.includes('#')) return refused('fragment');
  if (origin.includes('@') || url.username !== '' || url.password !== '')
    return refused('credentials');
  if (isAllowedOrigin(origin, policy)) {
    const isOwn = policy.refusedPorts().includes(portOf(url));
    return isOwn ? refused('reserved-port') : { ok: true, url, isAllowedOrigin: true };
  }
  if (url.protocol !== 'https:') return refused('scheme');
  const reason = judgeHost(url.hostname) ?? refusalOfPort(portOf(url));
  return reason ? refused(reason) : { ok: true, url, isAllowedOrigin: false };
}

export type ConnectCheck =
  | { readonly ok: true; readonly port: number; readonly isAllowedOrigin: boolean }
  | { readonly ok: false; readonly reason: UrlRefusal };

/**
 * Checks a connection before it is opened, independent of earlier checks. For a name it only says that the name may be
 * resolved.
 */
export function judgeConnect(url: URL, policy: UrlPolicy): ConnectCheck {
  const port = portOf(url);
  if (isAllowedOrigin(`${url.protocol}//${url.hostname}:${port}`, policy)) {
    const isOwn = policy.refusedPorts().includes(port);
    return isOwn
      ? { ok: false, reason: 'reserved-port' }
      : { ok: true, port, isAllowedOrigin: true };
  }
  if (url.protocol !== 'https:') return { ok: false, reason: 'scheme' };
  const reason = judgeHost(url.hostname) ?? refusalOfPort(port);
  return reason ? { ok: false, reason } : { ok: true, port, isAllowedOrigin: false };
}

/** A host as normalised by the URL parser: every spelling of an IPv4 address is dotted decimal here. */
export function judgeHost(hostname: string): 'reserved-name' | 'reserved-address' | undefined {
  const literal = hostname.replace(/^\[|\]$/g, '');
  if (isIP(literal) !== 0) return judgeAddress(literal) ? undefined : 'reserved-address';
  const name = hostname.toLowerCase().replace(/\.$/, '');
  return !name.includes('.') || RESERVED_NAME.test(name) ? 'reserved-name' : undefined;
}

/** Whether the configuration allows an origin. Compares the exact text. */
export function isAllowedOrigin(origin: string, policy: UrlPolicy): boolean {
  return policy.allowedOrigins.some((allowed) => {
    if (!allowed.endsWith(':*')) return origin === allowed;
    const stem = allowed.slice(0, -1);
    return origin.startsWith(stem) && /^[1-9]\d{0,4}$/.test(origin.slice(stem.length));
  });
}

function refusalOfPort(port: number): 'port' | undefined {
  return judgePort(port) ? undefined : 'port';
}

/** The port of a URL; by default that of the scheme. */
export function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port);
  return url.protocol === 'https:' ? 443 : 80;
}

/** URLs that parse but allow no connection: port 0, or an impossible host name. */
function leadsNowhere(url: URL): boolean {
  if (url.port === '0') return true;
  if (url.hostname.startsWith('[')) return false;
  const name = url.hostname.replace(/\.$/, '');
  return name.length > MAX_NAME || !name.split('.').every((label) => LABEL.test(label));
}

/** Scheme and authority: the text before the path. Undefined if it has blanks, control characters or backslashes. */
function originAsSent(text: string): string | undefined {
  if (/[\p{Cc}\p{Cs}\p{Z}\\]/u.test(text)) return undefined;
  return /^https?:\/\/[^/?#]+/i.exec(text)?.[0];
}

function parse(text: string): URL | undefined {
  return URL.parse(text) ?? undefined;
}

function refused(reason: UrlRefusal): UrlCheck {
  return { ok: false, reason, message: MESSAGES[reason] };
}
