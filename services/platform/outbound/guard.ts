import { isIP } from 'node:net';
import { fits, URL_MAX } from '../text.ts';
import { isPublicAddress } from './address.ts';
import { isAllowedPort } from './port.ts';

/** Why a URL is not allowed, as a code. */
export type UrlProblem =
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
      /** Whether the settings allow this origin. Its address is then not checked. */
      readonly isAllowedOrigin: boolean;
    }
  | { readonly ok: false; readonly reason: UrlProblem; readonly message: string };

/** The rules for URLs that the settings configure. */
export interface UrlPolicy {
  /** Origins such as `http://127.0.0.1:9000`, or `http://127.0.0.1:*` for any port. Never in production. */
  readonly allowedOrigins: readonly string[];
  /**
   * Ports that this stack itself uses. Origins with such a port are not allowed, even when `allowedOrigins` has them.
   */
  readonly stackPorts: () => readonly number[];
}

/**
 * Names of hosts that are internal or not reachable: RFC 6761, RFC 6762, RFC 7686, RFC 8375, RFC 9476, and names of
 * home networks. `.example` and `.test` are not among them: people use them for experiments, and no public name server
 * resolves them.
 */
const RESERVED_NAME =
  /(?:^|\.)(?:localhost|localdomain|local|internal|intranet|private|corp|lan|home|home\.arpa|svc|default|invalid|onion|alt)$/;

/** Maximum length of a host name (RFC 1035 section 2.3.4), without the dot at the end. Characters. */
const MAX_NAME = 253;
/** One part of a host name (RFC 1123 section 2.1). Underscores are allowed too, because some hosts use them. */
const LABEL = /^[a-z0-9_-]{1,63}$/;

const MESSAGES: Readonly<Record<UrlProblem, string>> = {
  'too-long': `must be at most ${URL_MAX} characters`,
  malformed: 'must be an absolute https address without spaces',
  scheme: 'must be an https address',
  credentials: 'must not contain a user name or password',
  fragment: 'must not contain a fragment',
  'reserved-name': 'must name a public host',
  'reserved-address': 'must not be a private, loopback, link-local or otherwise reserved address',
  'reserved-port': 'must not be one of this service',
  port: 'must have port 443, or one from 1024 up at which no other service usually listens',
};

/**
 * Checks by its text whether webhooks may be sent to a URL. It is called when a subscription is saved, and before every
 * attempt. Each connection also checks the addresses of the host.
 *
 * An allowed origin must match the original text. So another spelling of the same address is not an allowed origin.
 */
export function checkUrl(text: string, policy: UrlPolicy): UrlCheck {
  if (!fits(text, URL_MAX)) return invalid('too-long');
  const origin = originAsSent(text);
  const url = parse(text);
  if (origin === undefined || url === undefined || isUnreachable(url)) return invalid('malformed');
  if (text.includes('#')) return invalid('fragment');
  if (origin.includes('@') || url.username !== '' || url.password !== '')
    return invalid('credentials');
  const { reason, isAllowed } = checkParsed(url, origin, policy);
  return reason ? invalid(reason) : { ok: true, url, isAllowedOrigin: isAllowed };
}

export type ConnectCheck =
  | { readonly ok: true; readonly port: number; readonly isAllowedOrigin: boolean }
  | { readonly ok: false; readonly reason: UrlProblem };

/**
 * Checks a connection before it is opened, even if the URL was checked before. For a host name, `ok` only means that
 * the name may be resolved.
 */
export function checkConnection(url: URL, policy: UrlPolicy): ConnectCheck {
  const port = portOf(url);
  const origin = `${url.protocol}//${url.hostname}:${port}`;
  const { reason, isAllowed } = checkParsed(url, origin, policy);
  return reason ? { ok: false, reason } : { ok: true, port, isAllowedOrigin: isAllowed };
}

/** The rules that both checks share. Allowed origins may be plain http and have any address. */
function checkParsed(
  url: URL,
  origin: string,
  policy: UrlPolicy,
): { readonly reason: UrlProblem | undefined; readonly isAllowed: boolean } {
  const port = portOf(url);
  if (isAllowedOrigin(origin, policy)) {
    const isOwn = policy.stackPorts().includes(port);
    return { reason: isOwn ? 'reserved-port' : undefined, isAllowed: true };
  }
  if (url.protocol !== 'https:') return { reason: 'scheme', isAllowed: false };
  const portProblem = isAllowedPort(port) ? undefined : 'port';
  return { reason: checkHost(url.hostname) ?? portProblem, isAllowed: false };
}

/** Checks a host that the URL parser returned. The parser writes every IPv4 address as dotted decimal. */
function checkHost(hostname: string): 'reserved-name' | 'reserved-address' | undefined {
  const literal = hostname.replace(/^\[|\]$/g, '');
  if (isIP(literal) !== 0) return isPublicAddress(literal) ? undefined : 'reserved-address';
  const name = hostname.toLowerCase().replace(/\.$/, '');
  return !name.includes('.') || RESERVED_NAME.test(name) ? 'reserved-name' : undefined;
}

/** Whether the settings allow an origin. Compares the exact text. */
function isAllowedOrigin(origin: string, policy: UrlPolicy): boolean {
  return policy.allowedOrigins.some((allowed) => {
    if (!allowed.endsWith(':*')) return origin === allowed;
    const stem = allowed.slice(0, -1);
    return origin.startsWith(stem) && /^[1-9]\d{0,4}$/.test(origin.slice(stem.length));
  });
}

/** Returns the port of a URL. This is the default port of the scheme when the URL has none. */
export function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port);
  return url.protocol === 'https:' ? 443 : 80;
}

/** Whether no connection to a URL is possible, because of port 0 or an impossible host name. */
function isUnreachable(url: URL): boolean {
  if (url.port === '0') return true;
  if (url.hostname.startsWith('[')) return false;
  const name = url.hostname.replace(/\.$/, '');
  return name.length > MAX_NAME || !name.split('.').every((label) => LABEL.test(label));
}

/**
 * Returns the text before the path: scheme and authority. Undefined when it has blanks, control characters or
 * backslashes.
 */
function originAsSent(text: string): string | undefined {
  if (/[\p{Cc}\p{Cs}\p{Z}\\]/u.test(text)) return undefined;
  return /^https?:\/\/[^/?#]+/i.exec(text)?.[0];
}

function parse(text: string): URL | undefined {
  return URL.parse(text) ?? undefined;
}

function invalid(reason: UrlProblem): UrlCheck {
  return { ok: false, reason, message: MESSAGES[reason] };
}
