import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { fits, URL_MAX } from '../values/text.ts';

/** IPv4 ranges that no webhook may reach. The comment of each says which registry or vendor reserves it. */
const RESERVED_V4 = [
  '0.0.0.0/8', // this network, RFC 791
  '10.0.0.0/8', // private, RFC 1918
  '100.64.0.0/10', // carrier-grade NAT, RFC 6598; a cloud's metadata service too
  '127.0.0.0/8', // loopback
  '168.63.129.16/32', // a cloud's host agent
  '169.254.0.0/16', // link-local, RFC 3927; metadata services
  '172.16.0.0/12', // private, RFC 1918
  '192.0.0.0/24', // protocol assignments, RFC 6890
  '192.0.2.0/24', // documentation, RFC 5737
  '192.88.99.0/24', // 6to4 relays, RFC 7526
  '192.168.0.0/16', // private, RFC 1918
  '198.18.0.0/15', // benchmarks, RFC 2544
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved and broadcast
].map((range) => ipaddr.IPv4.parseCIDR(range));

/** The only IPv6 range that is publicly routed, and the parts of it that are not public. */
const GLOBAL_V6 = ipaddr.IPv6.parseCIDR('2000::/3');
const RESERVED_V6 = [
  '2001::/23', // protocol assignments: Teredo, ORCHID, benchmarks
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4, which carries an IPv4 address
  '3fff::/20', // documentation, RFC 9637
].map((range) => ipaddr.IPv6.parseCIDR(range));

/** The middle of ISATAP addresses (RFC 5214 section 6.1). They contain an IPv4 address, in any network. */
const ISATAP = [
  [0x00, 0x00, 0x5e, 0xfe],
  [0x02, 0x00, 0x5e, 0xfe],
];

/** NAT64 addresses (RFC 6052). Their last four bytes are the IPv4 address of the target. */
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');

/**
 * Whether webhooks may be sent to an address. Only public unicast addresses are allowed.
 *
 * An IPv4 address inside an IPv6 address (mapped, NAT64) is checked as an IPv4 address. Returns false for a text that
 * is not the canonical form of an address.
 */
export function isPublicAddress(address: string): boolean {
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) return isPublicV4(ipaddr.IPv4.parse(address));
  if (!ipaddr.IPv6.isValid(address) || address.includes('%')) return false;
  const parsed = ipaddr.IPv6.parse(address);
  if (parsed.isIPv4MappedAddress()) return isPublicV4(parsed.toIPv4Address());
  if (parsed.match(NAT64)) {
    return isPublicV4(new ipaddr.IPv4(parsed.toByteArray().slice(-4)));
  }
  if (!parsed.match(GLOBAL_V6) || isIsatap(parsed)) return false;
  return !RESERVED_V6.some((range) => parsed.match(range));
}

/**
 * Returns the network that counts as one receiver: an IPv4 address, or the first 64 bits of an IPv6 address. The owner
 * of one address of an IPv6 network usually has all 2^64 of them, and traffic to any of them reaches the same link.
 *
 * @param address a public address, see {@link isPublicAddress}.
 */
export function receiverNetwork(address: string): string {
  const parsed = ipaddr.process(address);
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  const bytes = parsed.toByteArray();
  if (parsed.match(NAT64)) return new ipaddr.IPv4(bytes.slice(-4)).toString();
  return `${new ipaddr.IPv6([...bytes.slice(0, 8), ...Array<number>(8).fill(0)])}/64`;
}

function isIsatap(address: ipaddr.IPv6): boolean {
  const identifier = address.toByteArray().slice(8, 12);
  return ISATAP.some((start) => start.every((byte, index) => byte === identifier[index]));
}

function isPublicV4(address: ipaddr.IPv4): boolean {
  return !RESERVED_V4.some((range) => address.match(range));
}

/**
 * Webhooks may not use a port below this one, except the port of https. These ports belong to services of the system.
 */
const FIRST_UNPRIVILEGED = 1024;
const HTTPS = 443;

/**
 * Ports above 1023 at which another kind of service usually listens. Without this list, an attacker could send requests
 * to such a service by a webhook. The list has no port from 32768 to 60999, because there any program may listen.
 */
const OTHER_SERVICES: ReadonlyMap<string, readonly number[]> = new Map([
  ['SOCKS, proxies', [1080, 3128, 10080]],
  ['databases', [1433, 1434, 1521, 3050, 3306, 5432, 5433, 5984, 6432, 8086, 8529, 9042, 9160]],
  [
    'more databases',
    [7000, 7001, 7199, 7473, 7474, 7687, 26257, 27017, 27018, 27019, 28015, 28017],
  ],
  ['caches', [6379, 6380, 11211, 16379, 26379]],
  ['search', [9200, 9300, 5601]],
  ['brokers', [1883, 8883, 4222, 5671, 5672, 6650, 9092, 9093, 9094, 15672, 25672, 61613, 61616]],
  ['coordination', [2181, 2379, 2380, 4369, 8200, 8201, 8300, 8301, 8302, 8500, 8501, 8600]],
  ['containers', [2375, 2376, 2377, 6443, 7946, 10250, 10255, 10256, 10257, 10259]],
  ['files', [2049, 3260, 4045, 9418, 10000]],
  ['remote desktops, remote administration', [3389, 5800, 5900, 5901, 5902, 5903, 5985, 5986]],
  ['directories', [3268, 3269, 3659]],
  ['calls, chats, mail', [1719, 1720, 5060, 5061, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 4190]],
  ['tunnels, screens, scanners', [1723, 6000, 6001, 6566]],
]);

const BLOCKED: ReadonlySet<number> = new Set([...OTHER_SERVICES.values()].flat());

/** The ports above 1023 that webhooks may not use, in ascending order. */
export const BLOCKED_PORTS: readonly number[] = [...BLOCKED].toSorted((a, b) => a - b);

/** Whether webhooks may use a port: 443, or a port above 1023 that no other kind of service usually has. */
export function isAllowedPort(port: number): boolean {
  return port === HTTPS || (port >= FIRST_UNPRIVILEGED && !BLOCKED.has(port));
}

/** Why a URL is not allowed, as a code. */
type UrlProblem =
  | 'too-long'
  | 'malformed'
  | 'scheme'
  | 'credentials'
  | 'fragment'
  | 'reserved-name'
  | 'reserved-address'
  | 'reserved-port'
  | 'port';

type UrlCheck =
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

type ConnectCheck =
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
