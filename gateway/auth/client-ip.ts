import type { IncomingMessage } from 'node:http';
import ipaddr from 'ipaddr.js';

/** Returns the IP address of the client, behind our own proxies. */
export type ClientIp = (peer: string | undefined, forwardedFor: string | undefined) => string;

/** Maximum number of cached results, and maximum length of a cache key in characters. */
const MAX_CACHED = 1_000;
const MAX_KEY_LENGTH = 200;

/**
 * Finds the right-most address in `X-Forwarded-For` that is not one of our proxies. The client could have invented the
 * addresses to the left of it. If the peer is not a trusted proxy, the header is ignored.
 *
 * @param trusted addresses or CIDR ranges of our proxies.
 * @returns the address in one normal form, so that one client has one address: a v4-mapped address as IPv4, an IPv6
 *   address as its /64, the smallest network that a site gets.
 * @throws Error for a range that {@link proxiesError} rejects.
 */
export function createClientIp(trusted: readonly string[]): ClientIp {
  const ranges = trusted.map(parseRange);
  const isTrusted = (address: Address): boolean =>
    ranges.some(([range, bits]) => range.kind() === address.kind() && address.match(range, bits));

  const find = (peer: string, forwardedFor: string): string => {
    let client = parse(peer);
    if (!client) return 'unknown';
    const hops = forwardedFor.split(',').reverse();
    for (const hop of hops) {
      if (!isTrusted(client)) break;
      const next = parse(hop.trim());
      if (!next) break;
      client = next;
    }
    return limitUnit(client);
  };

  // Without this cache, parsing the same few addresses would be a tenth of the CPU time of a read.
  const cache = new Map<string, string>();
  return (peer = '', forwardedFor = '') => {
    const key = `${peer} ${forwardedFor}`;
    const address = cache.get(key) ?? find(peer, forwardedFor);
    if (cache.size >= MAX_CACHED) cache.clear();
    if (key.length <= MAX_KEY_LENGTH) cache.set(key, address);
    return address;
  };
}

/** The IP address of the client of a request. */
export function addressOf(clientIp: ClientIp, req: IncomingMessage): string {
  const forwarded = req.headers['x-forwarded-for'];
  // Several header lines with one name are one list (RFC 9110, 5.2). Node joins them, although its types allow an
  // array.
  const header = Array.isArray(forwarded) ? forwarded.join(',') : forwarded;
  return clientIp(req.socket.remoteAddress, header);
}

type Address = ipaddr.IPv4 | ipaddr.IPv6;

function parse(text: string): Address | undefined {
  const bare = /^\[(.+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  const isFull = ipaddr.IPv4.isValidFourPartDecimal(bare) || ipaddr.IPv6.isValid(bare);
  return isFull ? ipaddr.process(bare) : undefined;
}

/** Minimum prefix lengths of a range, in bits: those of the widest private networks, 10.0.0.0/8 and fc00::/7. */
const MIN_BITS = { ipv4: 8, ipv6: 7 } as const;

/**
 * Checks the ranges of our proxies. Returns what is wrong, or undefined when they are valid. A range such as
 * `0.0.0.0/0` would let every client choose its own address.
 */
export function proxiesError(trusted: readonly string[]): string | undefined {
  for (const text of trusted) {
    const range = rangeOf(text);
    if (!range) return 'must be addresses or CIDR ranges separated by commas, or the word none';
    const [address, bits] = range;
    const min = MIN_BITS[address.kind()];
    if (bits < min) {
      return `has a range wider than /${min}: clients in it could choose the address they count under`;
    }
  }
  return undefined;
}

function parseRange(text: string): [Address, number] {
  const error = proxiesError([text]);
  const range = rangeOf(text);
  if (error !== undefined || !range) throw new Error(`trusted proxies: ${error}`);
  return range;
}

function rangeOf(text: string): [Address, number] | undefined {
  if (ipaddr.IPv4.isValidCIDRFourPartDecimal(text) || ipaddr.IPv6.isValidCIDR(text)) {
    return ipaddr.parseCIDR(text);
  }
  const address = parse(text);
  return address && [address, address.kind() === 'ipv4' ? 32 : 128];
}

function limitUnit(address: Address): string {
  if (address instanceof ipaddr.IPv4) return address.toString();
  const network = [...address.parts.slice(0, 4), 0, 0, 0, 0];
  return `${new ipaddr.IPv6(network).toString()}/64`;
}
