import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
const urls: Record<string, string> = {};

beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
  for (const day of ['2026-07-15', '2027-08-01', '2027-11-01', '2028-02-01']) {
    urls[day] = (await under.gateway.listenAt(new Date(day))).url;
  }
});
afterAll(() => under.stop());

const at = (day: string, sent: Sent): Promise<Received> =>
  send({ ...sent, baseUrl: urls[day] ?? '' });
const INVALID: readonly Sent[] = [
  { path: '/nothing' },
  { method: 'PATCH', path: '/webhooks' },
  { path: '/webhooks', key: null },
  { path: '/cart', raw: '{' },
  { path: '/cart', json: {} },
  { method: 'DELETE', path: '/webhooks/999' },
];

describe('the version that serves', () => {
  test.each([
    ['v1', '2026-07'],
    ['2026-07', '2026-07'],
    ['2026-10', '2026-10'],
    ['unstable', 'unstable'],
  ])('%s is served by %s, including errors', async (requested, served) => {
    for (const sent of [{ path: '/webhooks' }, ...INVALID]) {
      const { headers } = await send({ ...sent, path: `/api/${requested}${sent.path}` });
      expect(headers['x-service-api-version']).toBe(served);
      expect(headers['x-service-api-warning']).toBe(
        served === 'unstable'
          ? 'The unstable version may change without notice and must not be used in production.'
          : undefined,
      );
      expect(headers['cache-control']).toBe('no-store');
      expect(headers).not.toHaveProperty('etag');
      expect(headers).not.toHaveProperty('sunset');
    }
  });

  test('without a version in the path, the oldest supported version serves', async () => {
    const response = await send({ path: '/api/webhooks' });
    expect(response).toMatchObject({
      status: 200,
      headers: { 'x-service-api-version': '2026-07' },
    });
    const later = await at('2027-11-01', { path: '/api/webhooks' });
    expect(later.headers['x-service-api-version']).toBe('2026-10');
  });

  test('an unknown version is 404 with the list of versions, even without a key', async () => {
    for (const version of ['2026-08', '2019-01', 'v2', 'v0']) {
      const response = await send({ path: `/api/${version}/webhooks`, key: null });
      expect(response).toMatchObject({
        status: 404,
        body: { message: expect.stringContaining('2026-07, 2026-10, unstable'), errors: {} },
      });
    }
  });

  test('an unreleased version is unknown', async () => {
    expect((await at('2026-07-15', { path: '/api/2026-10/webhooks' })).status).toBe(404);
  });
});

describe('the lifecycle', () => {
  test('a deprecated version has headers with its sunset date', async () => {
    const response = await at('2027-08-01', { path: '/api/v1/webhooks', key: null });
    expect(response).toMatchObject({
      status: 401,
      headers: {
        sunset: 'Fri, 01 Oct 2027 00:00:00 GMT',
        deprecation: '@1814400000',
        link: expect.stringContaining('/docs/changelog'),
      },
    });
    const active = await at('2027-08-01', { path: '/api/2026-10/webhooks' });
    expect(active.headers).not.toHaveProperty('sunset');
  });

  test('requests to a sunset version are served by the oldest supported version', async () => {
    const response = await at('2027-11-01', {
      path: '/api/2026-07/warehouse/return/details?return_id=11',
    });
    expect(response).toMatchObject({
      status: 200,
      body: { line_items: [{ condition: { condition_category: { grade: 'a' } } }] },
      headers: {
        'x-service-api-version': '2026-10',
        link: expect.stringContaining('rel="successor-version"'),
      },
    });
  });

  test('the alias v1 ends with its version', async () => {
    const response = await at('2027-11-01', { path: '/api/v1/webhooks' });
    expect(response).toMatchObject({
      status: 404,
      body: { message: expect.stringContaining('2026-10') },
    });
  });

  test('the newest version stays deprecated until there is a newer one', async () => {
    const response = await at('2028-02-01', { path: '/api/2026-10/webhooks' });
    expect(response).toMatchObject({
      status: 200,
      headers: { sunset: 'Sat, 01 Jan 2028 00:00:00 GMT' },
    });
  });
});

describe('unstable', () => {
  test.each(INVALID)('%j is a problem document', async (sent) => {
    const response = await send({ ...sent, path: `/api/unstable${sent.path}` });
    expect(response.headers['content-type']).toBe('application/problem+json');
    expect(response.body).toMatchObject({
      type: expect.any(String),
      title: expect.any(String),
      status: response.status,
      detail: expect.any(String),
      code: expect.stringMatching(/^[A-Z_]+$/),
      errors: expect.any(Array),
    });
  });

  test('errors have the invalid fields and the codes of the interface', async () => {
    const path = '/api/unstable/webhooks';
    const fields = await send({ path, json: { topic: 'x' } });
    expect(fields.body).toMatchObject({
      errors: expect.arrayContaining([{ field: 'topic', message: expect.any(String) }]),
    });
    const json = { topic: 'return', trigger: 'return.closed', url: 'ftp://x' };
    expect((await send({ path, json })).body).toMatchObject({ code: 'FAILED_TO_CREATE_WEBHOOK' });
    expect((await send({ method: 'DELETE', path: `${path}/9` })).body).toMatchObject({
      code: 'NOT_FOUND',
    });
  });

  test('success responses are those of the newest version', async () => {
    const path = '/warehouse/return/details?return_id=11';
    const [unstable, newest] = await Promise.all([
      send({ path: `/api/unstable${path}` }),
      send({ path: `/api/2026-10${path}` }),
    ]);
    expect(unstable.body).toEqual(newest.body);
    expect(unstable.headers['content-type']).toBe('application/json');
  });
});
