import type { IncomingMessage } from 'node:http';
import ipaddr from 'ipaddr.js';

/** Says which address a request came from, past the proxies that are ours. */
export type ClientIp = (peer: string | undefined, forwardedFor: string | undefined) => string;

/** How many answers are remembered, and how long their question may be. Characters. */
const MAX_KNOWN = 1_000;
const MAX_KNOWN_LENGTH = 200;

/**
 * Finds the right-most address of `X-Forwarded-For` that is no proxy of ours. What stands left of it
 * was written by the client and proves nothing; without a trusted peer the header is not read at all.
 *
 * @param trusted addresses or CIDR ranges of our proxies.
 * @returns an address in one spelling: v4-mapped ones as v4, IPv6 as its /64 (the least a site is
 *   given), so that one client counts as one.
 * @throws Error for a range that {@link proxiesFault} finds at fault.
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

  // A tenth of the CPU of a read went into parsing the same few addresses again.
  const known = new Map<string, string>();
  return (peer = '', forwardedFor = '') => {
    const question = `${peer} ${forwardedFor}`;
    const answer = known.get(question) ?? find(peer, forwardedFor);
    if (known.size >= MAX_KNOWN) known.clear();
    if (question.length <= MAX_KNOWN_LENGTH) known.set(question, answer);
    return answer;
  };
}

/** The address that a request came from. */
export function addressOf(clientIp: ClientIp, req: IncomingMessage): string {
  const forwarded = req.headers['x-forwarded-for'];
  // Repeated lines of this header are one list (RFC 9110, 5.2); Node joins them, its types do not know.
  const header = Array.isArray(forwarded) ? forwarded.join(',') : forwarded;
  return clientIp(req.socket.remoteAddress, header);
}

type Address = ipaddr.IPv4 | ipaddr.IPv6;

function parse(text: string): Address | undefined {
  const bare = /^\[(.+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  const isFull = ipaddr.IPv4.isValidFourPartDecimal(bare) || ipaddr.IPv6.isValid(bare);
  return isFull ? ipaddr.process(bare) : undefined;
}

/** The widest range that is anybody's own network: 10.0.0.0/8 and fc00::/7. Bits. */
const LEAST_BITS = { ipv4: 8, ipv6: 7 } as const;

/**
 * What is wrong with the ranges of our proxies; undefined when nothing is. A range such as `0.0.0.0/0`
 * would let every client choose its own address.
 */
export function proxiesFault(trusted: readonly string[]): string | undefined {
  for (const text of trusted) {
    const range = rangeOf(text);
    if (!range) return 'wants addresses or CIDR ranges separated by commas, or the word none';
    const [address, bits] = range;
    const least = LEAST_BITS[address.kind()];
    if (bits < least) {
      return `has a range wider than /${least}: clients in it could choose the address they count under`;
    }
  }
  return undefined;
}

function parseRange(text: string): [Address, number] {
  const fault = proxiesFault([text]);
  const range = rangeOf(text);
  if (fault !== undefined || !range) throw new Error(`trusted proxies: ${fault}`);
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
