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
  expect([400, 415]).toContain((await call(body, headers)).status);
});

test('a deadline that overflows a timer is rejected before a timer is started', async () => {
  const response = await call('{}', { 'Connect-Timeout-Ms': '9999999999' });
  // The text of the guard. Connect has another text, and starts the timer before.
  expect(await response.json()).toEqual({
    code: 'invalid_argument',
    message: 'Connect-Timeout-Ms must be at most 30000.',
  });
});
