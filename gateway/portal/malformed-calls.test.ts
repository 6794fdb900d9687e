import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';

let under: TestGateway;
let owner: PortalPerson;
beforeAll(async () => {
  under = await startTestGateway();
  owner = await portalPerson(under, { shopId: 1n, role: 'owner' });
});
afterAll(() => under.stop());

function call(body: string, headers: Record<string, string>): Promise<Response> {
  const url = `${under.gateway.baseUrl}/portal/api/rms.portal.v1.SessionService/GetSession`;
  return fetch(url, {
    method: 'POST',
    body,
    headers: {
      'Content-Type': 'application/json',
      'Connect-Protocol-Version': '1',
      'Sec-Fetch-Site': 'same-origin',
      Cookie: `rms_portal=${owner.secret}`,
      ...headers,
    },
  });
}

test.each<[string, string, Record<string, string>]>([
  ['protobuf', '', { 'Content-Type': 'application/proto' }],
  ['a broken protobuf body', '{}', { 'Content-Type': 'application/proto' }],
  ['another type', '{}', { 'Content-Type': 'text/plain' }],
  ['broken JSON', '{"a":', {}],
  ['JSON of another type', '[]', {}],
  ['gzip that is none', '{}', { 'Content-Encoding': 'gzip' }],
  ['brotli that is none', '{}', { 'Content-Encoding': 'br' }],
  ['an unknown compression', '{}', { 'Content-Encoding': 'zstd' }],
  ['a deadline of letters', '{}', { 'Connect-Timeout-Ms': 'abc' }],
  ['a deadline that overflows a timer', '{}', { 'Connect-Timeout-Ms': '9999999999' }],
  ['another version of the protocol', '{}', { 'Connect-Protocol-Version': '2' }],
])('a call with %s is the fault of the caller', async (_what, body, headers) => {
  const warnings: string[] = [];
  const warn = ({ name }: Error) => void warnings.push(name);
  process.on('warning', warn);
  const { status } = await call(body, headers);
  // Node emits a warning before the next request is read.
  expect((await call('{}', {})).status).toBe(200);
  process.off('warning', warn);
  expect([400, 415]).toContain(status);
  expect(warnings).toEqual([]);
});
