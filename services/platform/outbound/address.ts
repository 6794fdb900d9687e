import ipaddr from 'ipaddr.js';

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

function isIsatap(address: ipaddr.IPv6): boolean {
  const identifier = address.toByteArray().slice(8, 12);
  return ISATAP.some((start) => start.every((byte, index) => byte === identifier[index]));
}

function isPublicV4(address: ipaddr.IPv4): boolean {
  return !RESERVED_V4.some((range) => address.match(range));
}
