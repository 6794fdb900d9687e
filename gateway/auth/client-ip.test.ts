import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createClientIp } from './client-ip.ts';

const clientIp = createClientIp(['10.0.0.0/8', '127.0.0.1', 'fd00::/8']);

test.each<[string | undefined, string | undefined, string, string]>([
  ['203.0.113.9', undefined, '203.0.113.9', 'without a header: the peer'],
  ['203.0.113.9', '198.51.100.1', '203.0.113.9', 'an untrusted peer: the header is ignored'],
  ['127.0.0.1', '198.51.100.1', '198.51.100.1', 'a trusted peer'],
  ['::ffff:127.0.0.1', '198.51.100.1', '198.51.100.1', 'a v4-mapped peer'],
  [
    '127.0.0.1',
    '1.2.3.4, 198.51.100.1, 10.1.2.3',
    '198.51.100.1',
    'the right-most address that is not a proxy',
  ],
  ['127.0.0.1', '198.51.100.1, 1.2.3.4', '1.2.3.4', 'the client can write addresses to the left'],
  ['127.0.0.1', '10.0.0.1, 10.0.0.2', '10.0.0.1', 'only proxies: the left-most'],
  ['127.0.0.1', 'nonsense', '127.0.0.1', 'an invalid address is ignored'],
  [
    '127.0.0.1',
    '1.2.3.4, nonsense, 10.0.0.1',
    '10.0.0.1',
    'addresses left of an invalid one are ignored',
  ],
  ['127.0.0.1', '198.51.100.1:4711', '198.51.100.1', 'with a port'],
  ['127.0.0.1', '[2001:db8::1]:4711', '2001:db8::/64', 'IPv6 with a port'],
  ['127.0.0.1', '::ffff:198.51.100.1', '198.51.100.1', 'a v4-mapped address is IPv4'],
  ['127.0.0.1', '2130706433', '127.0.0.1', 'a number is not an address'],
  [undefined, '198.51.100.1', 'unknown', 'a closed socket has no peer'],
])('%s, %j is %s: %s', (peer, header, expected, _why) => {
  expect(clientIp(peer, header)).toBe(expected);
});

test('an IPv6 address becomes its /64', () => {
  const address = clientIp('2001:db8:1:2:3:4:5:6', undefined);
  expect(clientIp('2001:db8:1:2:ffff::1', undefined)).toBe(address);
  expect(clientIp('2001:db8:1:3::1', undefined)).not.toBe(address);
});

test('never throws, for any header', () => {
  fc.assert(
    fc.property(fc.string(), (header) => typeof clientIp('127.0.0.1', header) === 'string'),
  );
});

test.each([
  ['10.0.0.0/99', 'must be addresses'],
  ['10.0.0.0/', 'must be addresses'],
  ['10.1', 'must be addresses'],
  ['balancer.internal', 'must be addresses'],
  ['0.0.0.0/0', 'wider than /8'],
  ['128.0.0.0/1', 'wider than /8'],
  ['::/0', 'wider than /7'],
  ['::0/0', 'wider than /7'],
])('rejects %s at the start', (range, why) => {
  expect(() => createClientIp(['10.0.0.0/8', range])).toThrow(why);
});

test.each(['10.0.0.0/8', '100.64.0.0/10', 'fc00::/7', '::1', '192.0.2.7/32'])(
  'accepts %s',
  (range) => {
    expect(() => createClientIp([range])).not.toThrow();
  },
);
