import { expect, test } from '@jest/globals';
import { returnPathOf } from './return-path.ts';

test.each([
  ['/portal', '/portal'],
  ['/portal/webhooks/41?state=waiting#log', '/portal/webhooks/41?state=waiting#log'],
  [null, '/portal'],
  ['', '/portal'],
  ['https://evil.example/portal', '/portal'],
  ['//evil.example/portal', '/portal'],
  ['/\\evil.example/portal', '/portal'],
  ['/portal/../../evil', '/portal'],
  ['/portal/%2e%2e/mcp', '/portal'],
  ['/portalx', '/portal'],
  ['/portal/sign-in', '/portal'],
  ['/portal/callback?code=1', '/portal'],
  ['/portal/api/x', '/portal'],
  ['/portal\r\nSet-Cookie: a=b', '/portal'],
  ['javascript:alert(1)', '/portal'],
  [`/portal/${'x'.repeat(3_000)}`, '/portal'],
])('a sign-in with return_to %j ends at %j', (text, path) => {
  expect(returnPathOf(text)).toBe(path);
});
