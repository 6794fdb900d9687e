import { describe, expect, test } from '@jest/globals';
import {
  BLOCKED_PORTS,
  checkConnection,
  checkUrl,
  isPublicAddress,
  type UrlPolicy,
} from './guard.ts';

const production: UrlPolicy = { allowedOrigins: [], stackPorts: () => [] };
const local: UrlPolicy = {
  allowedOrigins: ['http://127.0.0.1:*'],
  stackPorts: () => [8080],
};

function reason(url: string, policy = production) {
  const check = checkUrl(url, policy);
  return check.ok ? 'ok' : check.reason;
}

describe('a webhook address', () => {
  test.each([
    'https://example.com/hooks',
    'https://EXAMPLE.com:8443/a?b=c',
    'https://example.com:443/',
    'https://example.com:1024/',
    'https://example.com:65535/',
    'https://hooks.example.co.uk',
    'https://8.8.8.8/',
    'https://[2606:4700::1111]/hook',
    'https://bücher.example.com/ä',
    'https://example.com./',
    'https://a_b.example.com/',
    `https://${'a'.repeat(63)}.example.com/`,
    'https://testing.example.com/',
    'https://partner.example/hooks',
    'https://partner.test/hooks',
    'https://example.net/test',
  ])('%s may be saved', (url) => {
    expect(reason(url)).toBe('ok');
    expect(reason(url, local)).toBe('ok');
  });

  test.each([
    ['', 'malformed'],
    ['not a url', 'malformed'],
    ['/hook', 'malformed'],
    ['//example.com/', 'malformed'],
    ['https:example.com', 'malformed'],
    ['https:/example.com', 'malformed'],
    ['https://', 'malformed'],
    ['https://exa mple.com/', 'malformed'],
    ['https://example.com/\u0000', 'malformed'],
    ['https://example.com/\n', 'malformed'],
    ['https://example.com\\@127.0.0.1/', 'malformed'],
    ['https://example.com:99999/', 'malformed'],
    ['https://example.com:0/', 'malformed'],
    ['https://x..example.com/', 'malformed'],
    ['https://.example.com/', 'malformed'],
    ['https://../', 'malformed'],
    ['https://a,b.example.com/', 'malformed'],
    [`https://${'a'.repeat(64)}.example.com/`, 'malformed'],
    [`https://${'a.'.repeat(124)}example.com/`, 'malformed'],
    ['ftp://example.com/', 'malformed'],
    ['file:///etc/passwd', 'malformed'],
    ['javascript:alert(1)', 'malformed'],
    ['http://example.com/', 'scheme'],
    ['https://user:secret@example.com/', 'credentials'],
    ['https://@example.com/', 'credentials'],
    ['https://127.0.0.1@example.com/', 'credentials'],
    ['https://example.com/#top', 'fragment'],
    ['https://example.com/#', 'fragment'],
    [`https://example.com/${'a'.repeat(2_029)}`, 'too-long'],
    ['https://example.com:80/', 'port'],
    ['https://example.com:22/', 'port'],
    ['https://example.com:1023/', 'port'],
    ['https://example.com:5432/', 'port'],
    ['https://8.8.8.8:6379/', 'port'],
    ['https://localhost/', 'reserved-name'],
    ['https://LOCALHOST./', 'reserved-name'],
    ['https://a.localhost/', 'reserved-name'],
    ['https://printer.local/', 'reserved-name'],
    ['https://metadata.google.internal/', 'reserved-name'],
    ['https://returns.default.svc.cluster.local/', 'reserved-name'],
    ['https://returns.default.svc/', 'reserved-name'],
    ['https://intranet/', 'reserved-name'],
    ['https://router.home.arpa/', 'reserved-name'],
    ['https://127.0.0.1/', 'reserved-address'],
    ['https://127.1/', 'reserved-address'],
    ['https://2130706433/', 'reserved-address'],
    ['https://0x7f000001/', 'reserved-address'],
    ['https://0x7f.1/', 'reserved-address'],
    ['https://0177.0.0.1/', 'reserved-address'],
    ['https://127.0.0.1./', 'reserved-address'],
    ['https://①②⑦.⓪.⓪.①/', 'reserved-address'],
    ['https://%31%32%37.0.0.1/', 'reserved-address'],
    ['https://0/', 'reserved-address'],
    ['https://10.1.2.3/', 'reserved-address'],
    ['https://100.64.0.1/', 'reserved-address'],
    ['https://169.254.169.254/latest/meta-data/', 'reserved-address'],
    ['https://172.31.255.255/', 'reserved-address'],
    ['https://192.168.0.1/', 'reserved-address'],
    ['https://224.0.0.1/', 'reserved-address'],
    ['https://255.255.255.255/', 'reserved-address'],
    ['https://[::1]/', 'reserved-address'],
    ['https://[::]/', 'reserved-address'],
    ['https://[0:0:0:0:0:0:0:1]/', 'reserved-address'],
    ['https://[fe80::1]/', 'reserved-address'],
    ['https://[fd00:ec2::254]/', 'reserved-address'],
    ['https://[ff02::1]/', 'reserved-address'],
    ['https://[::ffff:127.0.0.1]/', 'reserved-address'],
    ['https://[::ffff:7f00:1]/', 'reserved-address'],
    ['https://[::127.0.0.1]/', 'reserved-address'],
    ['https://[64:ff9b::7f00:1]/', 'reserved-address'],
    ['https://[64:ff9b:1::1]/', 'reserved-address'],
    ['https://[2002:7f00:1::]/', 'reserved-address'],
    ['https://[2001:db8::1]/', 'reserved-address'],
  ])('%j may not: %s', (url, expected) => {
    expect(reason(url)).toBe(expected);
    expect(reason(url, local)).toBe(expected);
  });

  test('may have 2048 characters, however they are encoded', () => {
    const longest = `https://example.com/${'😀'.repeat(2_028)}`;
    expect(reason(longest)).toBe('ok');
    expect(reason(`${longest}a`)).toBe('too-long');
  });
});

describe('an allowed origin', () => {
  test.each(['http://127.0.0.1:9000', 'http://127.0.0.1:9000/hook?a=b', 'http://127.0.0.1:80/'])(
    '%s is allowed only where it is configured',
    (url) => {
      expect(checkUrl(url, local)).toMatchObject({ ok: true, isAllowedOrigin: true });
      expect(reason(url)).not.toBe('ok');
    },
  );

  test.each([
    'http://2130706433:9000/',
    'http://0x7f.1:9000/',
    'http://127.1:9000/',
    'http://0177.0.0.1:9000/',
    'http://127.0.0.1.:9000/',
    'http://127.0.0.1/',
    'http://127.0.0.1:/',
    'http://127.0.0.1:09000/',
    'HTTP://127.0.0.1:9000/',
    'https://127.0.0.1:9000/',
    'http://localhost:9000/',
    'http://[::1]:9000/',
    'http://[::ffff:127.0.0.1]:9000/',
    'http://127.0.0.2:9000/',
    'http://127.0.0.1:9000@example.com/',
    'http://127.0.0.1:9000\\@example.com/',
    'http://example.com:9000/',
  ])('%s is another spelling and stays refused', (url) => {
    expect(reason(url, local)).not.toBe('ok');
  });

  test('does not include the ports of this stack', () => {
    expect(reason('http://127.0.0.1:8080/', local)).toBe('reserved-port');
    expect(reason('https://example.com:8080/', local)).toBe('ok');
  });

  test('may name one port only', () => {
    const one: UrlPolicy = { ...local, allowedOrigins: ['http://127.0.0.1:9000'] };
    expect(reason('http://127.0.0.1:9000/x', one)).toBe('ok');
    expect(reason('http://127.0.0.1:90001/x', one)).not.toBe('ok');
    expect(reason('http://127.0.0.1:9001/', one)).not.toBe('ok');
  });
});

describe('a connection', () => {
  test.each([80, 22, 1023, ...BLOCKED_PORTS])('is not made to port %d', (port) => {
    const url = new URL(`https://example.com:${port}/`);
    expect(checkConnection(url, production)).toEqual({ ok: false, reason: 'port' });
  });

  test('is made to any port of an allowed origin except those of this stack', () => {
    for (const port of [80, 5432, 9000]) {
      const url = new URL(`http://127.0.0.1:${port}/`);
      expect(checkConnection(url, local)).toMatchObject({ ok: true, port });
    }
  });
});

describe('an address', () => {
  test.each([
    '1.1.1.1',
    '172.15.0.1',
    '172.32.0.1',
    '100.128.0.1',
    '2606:4700::1',
    '64:ff9b::8.8.8.8',
    '::ffff:8.8.8.8',
  ])('%s is public', (address) => expect(isPublicAddress(address)).toBe(true));
  test.each([
    '127.0.0.1',
    '0177.0.0.1',
    '1.1',
    '168.63.129.16',
    'fe80::1%eth0',
    '3fff::1',
    '4000::1',
    '2606:4700::5efe:7f00:1',
    '2606:4700::200:5efe:8.8.8.8',
    '2002:808:808::1',
    '64:ff9b:1::8.8.8.8',
    '',
    'localhost',
  ])('%j is not', (address) => expect(isPublicAddress(address)).toBe(false));
});
