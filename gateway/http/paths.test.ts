import { readdir } from 'node:fs/promises';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { type SignInStack, startSignInStack } from '../../test/kit/oauth/sign-in-stack.ts';

let stack: SignInStack;

beforeAll(async () => {
  stack = await startSignInStack({ replicas: 1, FAILED_CREDENTIALS_PER_MINUTE: 1_000_000 });
});
afterAll(() => stack.stop());

/** Sends a request whose path is not encoded, and returns the status. */
async function statusOf(method: string, path: string, key: string): Promise<number> {
  const { port, hostname } = new URL(stack.baseUrl);
  const socket = connect(Number(port), hostname);
  const fields = ['host: x', `x-authorization: ${key}`, 'connection: close'];
  socket.write(`${method} ${path} HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`, 'latin1');
  const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(await text(socket)) ?? [];
  return Number(status);
}

/** Names of properties that every object inherits. */
const INHERITED = [
  ...Object.getOwnPropertyNames(Object.prototype),
  ...['prototype', 'length', 'name', 'then', 'get', 'size'],
];
const SERVED = [
  ...['api', 'v1', '2026-07', '2026-10', 'unstable', 'docs', 'assets', 'openapi', 'changelog'],
  ...[
    'start.js',
    'reference',
    'receivers',
    'quickstart',
    'oauth2-redirect',
    'swagger-ui.css',
    'oauth',
    'authorize',
    'token',
    'callback',
    'register',
    'jwks',
  ],
  ...['sign-in', 'shop', 'consent', 'allow', 'cancel', '.well-known', 'oauth-protected-resource'],
  ...['oauth-authorization-server', 'openid-configuration', 'mcp', 'icon.svg', 'livez'],
  ...OPERATIONS.flatMap(({ path }) => path.split('/').slice(1)),
];
const ODD = ['', '.', '..', '%', '%2', '%zz', '%ff', '%00', '%2e%2e', '%2F', '%5C', '\\', '*', ':'];

const part = fc.oneof(
  fc.constantFrom(...INHERITED),
  fc.constantFrom(...SERVED),
  fc.constantFrom(...ODD),
  fc.string({ unit: 'binary', maxLength: 12 }).map((one) => encodeURIComponent(one.toWellFormed())),
  fc.string({ maxLength: 12 }).map((one) => one.replace(/[^\x21-\x7e]/g, '')),
  // Raw bytes above ASCII.
  fc.string({
    unit: fc.integer({ min: 0x80, max: 0xff }).map((byte) => String.fromCharCode(byte)),
  }),
  fc.constant('x'.repeat(6_000)),
);
const escaped = (one: string): string =>
  [...one].map((char) => `%${char.charCodeAt(0).toString(16).padStart(2, '0')}`).join('');
const segment = fc.oneof(
  { weight: 6, arbitrary: part },
  { weight: 1, arbitrary: part.map((one) => `${one}.json`) },
  { weight: 1, arbitrary: fc.constantFrom(...INHERITED).map(escaped) },
);
const prefixes = fc.constantFrom(
  ...['/docs/assets', '/openapi', '/docs', '/api', '/api/v1', '/oauth', '/oauth/authorize'],
  ...['/oauth/sign-in', '/.well-known', '/mcp', '', '', ''],
);
const path = fc
  .tuple(prefixes, fc.array(segment, { maxLength: 5 }), fc.option(part, { freq: 4 }))
  .map(
    ([prefix, parts, query]) => `${prefix}/${parts.join('/')}${query === null ? '' : `?${query}`}`,
  )
  // With longer paths the headers are too large: status 431, and the connection is closed.
  .map((one) => one.slice(0, 14_000));
const method = fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'POST', 'OPTIONS', 'DELETE');

const isNoServerError = (status: number): boolean => status >= 200 && status < 500;

describe('a path', () => {
  test.each(INHERITED)('/docs/assets/%s does not exist', async (name) => {
    const { key } = stack.under;
    expect(await statusOf('GET', `/docs/assets/${name}`, key)).toBe(404);
    expect(await statusOf('GET', `/openapi/${name}.json`, key)).toBe(404);
  });

  test('never causes a 500, with 10,000 random paths', async () => {
    const { key } = stack.under;
    const requests = fc.array(fc.tuple(method, path), { minLength: 40, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(requests, async (all) => {
        const statuses = await Promise.all(
          all.map(([method, path]) => statusOf(method, path, key)),
        );
        expect(all.filter((_, at) => !isNoServerError(statuses[at] ?? 0))).toEqual([]);
      }),
      { numRuns: 250 },
    );
  }, 300_000);
});

test('a client that disconnects before the end of an asset leaves no file open', async () => {
  const { port, hostname } = new URL(stack.baseUrl);
  const filesOpen = async (): Promise<number> => (await readdir('/proc/self/fd')).length;
  const leave = (): Promise<void> =>
    new Promise((resolve) => {
      const socket = connect(Number(port), hostname);
      socket.write('GET /docs/assets/swagger-ui-bundle.js HTTP/1.1\r\nhost: x\r\n\r\n');
      socket.once('data', () => socket.destroy()).once('close', () => resolve());
    });
  await leave();
  const before = await filesOpen();
  for (let nth = 0; nth < 50; nth += 1) await leave();
  expect(await filesOpen()).toBeLessThan(before + 25);
});
