import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { scopesOpening } from '../../services/contract/scopes.ts';
import { restClient } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

let under: TestGateway;
let send: ReturnType<typeof restClient>;
beforeAll(async () => {
  under = await startTestGateway({
    DOCS_ENABLED: false,
    API_CALENDAR: new Date('2027-08-01T00:00:00Z'),
    PUBLIC_BASE_URL: 'https://api.example.org/base',
    PARTNER_ISSUER: 'https://login.example.org/',
    PARTNER_JWKS_URL: 'https://login.example.org/jwks',
  });
  send = restClient(under);
});
afterAll(() => under?.stop());

describe('without the documentation page', () => {
  test('the link in responses of a deprecated version works', async () => {
    const { headers } = await send({ path: '/api/2026-07/webhooks' });
    const links = [...String(headers.link).matchAll(/<([^>]+)>/g)].map(([, path = '']) => path);
    expect(links.length).toBeGreaterThan(0);
    for (const path of new Set(links)) {
      const response = await send({ path });
      expect([path, response.status, response.headers['content-type']]).toEqual([
        path,
        200,
        'text/html; charset=utf-8',
      ]);
      expect(response.headers['content-security-policy']).toContain("default-src 'none'");
    }
    expect((await send({ path: '/docs' })).status).toBe(404);
  });
});

describe('an OpenAPI document', () => {
  test('is compressed, and a client that has it gets 304', async () => {
    const url = `${under.gateway.baseUrl}/openapi/2026-10.json`;
    const response = await fetch(url, { headers: { 'accept-encoding': 'gzip, br' } });
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
    expect(await response.json()).toMatchObject({ openapi: expect.any(String) });
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'content-encoding': 'br',
      vary: 'Accept-Encoding',
    });
    const etag = response.headers.get('etag') ?? '';
    const again = await send({ path: '/openapi/2026-10.json', headers: { 'if-none-match': etag } });
    expect([again.status, again.text]).toEqual([304, '']);
  });

  test("contains the operator's authorization server", async () => {
    const { body } = await send({ path: '/openapi/2026-10.json' });
    expect(body).toMatchObject({
      components: {
        securitySchemes: {
          partner: {
            type: 'oauth2',
            flows: {
              authorizationCode: {
                authorizationUrl: 'https://login.example.org/authorize',
                tokenUrl: 'https://login.example.org/oauth/token',
                scopes: {
                  developer_tools: expect.any(String),
                  'labels:write': expect.any(String),
                  'giftcards:write': expect.any(String),
                },
              },
            },
          },
        },
      },
    });
  });

  test('contains its own address as the default of the variable in `servers`', async () => {
    const { body } = await send({ path: '/openapi/2026-10.json' });
    expect(body).toMatchObject({
      servers: [
        { url: '/api/2026-10' },
        {
          url: '{base_url}/api/2026-10',
          variables: { base_url: { default: 'https://api.example.org/base' } },
        },
      ],
    });
  });

  test('has a token beside the key where the operation takes one, with each of its scopes', async () => {
    const { body } = await send({ path: '/openapi/2026-10.json' });
    const paths: unknown = Reflect.get(Object(body), 'paths');
    for (const entry of OPERATIONS) {
      const { path, method, credentials } = entry;
      const item: unknown = Reflect.get(Object(paths), path);
      const operation: unknown = Reflect.get(Object(item), method.toLowerCase());
      const scopes = scopesOpening(entry);
      const tokens = scopes.map((scope) => ({ partner: [scope] }));
      expect(operation).toMatchObject({
        security: [{ apiKey: [] }, ...(credentials === 'bearer-or-api-key' ? tokens : [])],
        'x-scopes': scopes,
      });
    }
  });
});
