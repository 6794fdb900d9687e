import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { jwksUrlOf } from './external-issuer.ts';

describe('an external issuer', () => {
  let server: Server;
  let issuer: string;
  let answer: (path: string) => string;
  beforeEach(async () => {
    server = createServer((req, res) => res.end(answer(req.url ?? '')));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}/realms/shop`;
  });
  afterEach(() => new Promise((closed) => server.close(closed)));

  test('has the URL of its keys in its metadata', async () => {
    answer = (path) =>
      path === '/realms/shop/.well-known/openid-configuration'
        ? JSON.stringify({ issuer, jwks_uri: 'https://keys.example.com/certs' })
        : '{}';
    expect(await jwksUrlOf(issuer)).toBe('https://keys.example.com/certs');
  });

  test.each([
    '{}',
    'no JSON',
    '{"issuer":"https://other.example.com","jwks_uri":"https://a.example.com"}',
  ])('is rejected with its name when it responds with %s', async (text) => {
    answer = () => text;
    await expect(jwksUrlOf(issuer)).rejects.toThrow(`OIDC_ISSUER ${issuer} cannot be used`);
  });
});
