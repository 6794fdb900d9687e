import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  ERROR_HELP,
  type ErrorHelp,
  PROCESS_REFUSAL_HELP,
} from '../../services/contract/error-help.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { ERROR_EXAMPLES } from './error-examples.ts';
import { DOCS_PATHS } from './paths.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterAll(() => under?.stop());

/** The example of a code on the page of errors: its head and its body. */
async function shownFor(code: string) {
  const { text } = await send({ path: DOCS_PATHS.errors, key: null });
  const [, section = ''] = text.split(`<h2 id="${code}">`);
  const [, shown = ''] =
    /<code>(HTTP\/1\.1 .*?)<\/code>/s.exec(section.split('<h2')[0] ?? '') ?? [];
  const plain = shown.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)));
  const [head = '', body = ''] = plain.split('\n\n');
  const [, status] = /^HTTP\/1\.1 (\d{3}) [A-Z]/.exec(head) ?? [];
  return { head, body, status: Number(status) };
}

test.each<[string, ErrorHelp]>(Object.entries(ERROR_HELP))(
  'the page of errors shows a response with %s',
  async (code, { statuses }) => {
    const { head, body, status } = await shownFor(code);
    expect(statuses).toContain(status);
    expect(head).toContain(`Link: </docs/errors#${code}>; rel="help"`);
    expect(Object.keys(JSON.parse(body))).not.toEqual([]);
  },
);

test.each(Object.keys(PROCESS_REFUSAL_HELP))('it shows a 200 with %s', async (code) => {
  const { body, status } = await shownFor(code);
  expect(status).toBe(200);
  expect(JSON.parse(body)).toEqual({ errors: { code, message: expect.any(String) } });
});

const JSON_TYPE = { 'content-type': 'application/json' };
test.each([
  ['BAD_REQUEST', { path: '/api/v1/cart', raw: '[]', headers: JSON_TYPE }],
  ['UNAUTHORIZED', { path: '/api/v1/cart', key: 'rms_wrong', json: {} }],
  ['NOT_FOUND', { path: '/api/v1/webhooks/12' }],
  ['METHOD_NOT_ALLOWED', { path: '/api/v1/webhooks/12', method: 'PATCH' }],
  ['UNSUPPORTED_MEDIA_TYPE', { path: '/api/v1/cart', raw: '{}' }],
  ['VALIDATION_FAILED', { path: '/api/v1/webhooks', json: { topic: 'return', event: 'x' } }],
] as const)('the example of %s is what the gateway answers', async (code, sent: Sent) => {
  const { error, headers } = ERROR_EXAMPLES[code];
  const response = await send(sent);
  expect([response.status, response.body]).toEqual([error.status, error.body]);
  for (const [name, value] of Object.entries(headers)) {
    expect(response.headers[name.toLowerCase()]).toBe(value);
  }
});
