import { describe, expect, test } from '@jest/globals';
import { newKeyringText } from '../../services/platform/security/keyring.ts';
import { forTargets } from '../../services/platform/services.ts';
import { loadGatewayConfig } from '../config.ts';
import { signInProvider } from './config.ts';

const DEVELOPMENT = {
  DATABASE_URL: 'postgres://user@127.0.0.1/db',
  ...forTargets(() => '127.0.0.1:1'),
  SERVICE_TOKEN: 'token-of-32-characters-or-longer-x',
};
const PRODUCTION = {
  ...DEVELOPMENT,
  NODE_ENV: 'production',
  PUBLIC_BASE_URL: 'https://returns.example.com',
  SERVICE_AUTH: 'kubernetes',
  SERVICE_TOKEN_FILE: '/x',
  SERVICE_JWKS_FILE: '/x',
  SERVICE_ISSUER: 'https://cluster',
  SERVICE_SUBJECTS: 'system:serviceaccount:rms:*',
  TRANSPORT_SECURITY: 'mesh',
  TRUSTED_PROXIES: '10.0.0.0/8',
};
const SIGN_IN = {
  SIGN_IN_ISSUER: 'https://login.example.com',
  SIGN_IN_CLIENT_ID: 'gateway',
  SIGN_IN_CLIENT_SECRET: 'secret',
  OAUTH_KEYRING: newKeyringText(),
};
const load = (env: Record<string, string>) => () => loadGatewayConfig(env);

describe('configuration of the sign-in of assistants', () => {
  test('may be absent or complete, and may have a list of clients', () => {
    expect(signInProvider(load(DEVELOPMENT)())).toBeUndefined();
    const list = '[{"name":"Console","redirect_uris":["https://console.example.com/cb"]}]';
    const config = load({ ...PRODUCTION, ...SIGN_IN, MCP_CLIENTS: list })();
    const issuer = 'https://login.example.com';
    const client = { clientId: 'gateway', clientSecret: 'secret' };
    expect(signInProvider(config)).toEqual({ issuer, ...client, requiredAcr: [] });
    expect(config).toMatchObject({
      OAUTH_KEYRING: expect.anything(),
      MCP_CLIENT_ID: 'rms-mcp',
      MCP_GRANT_DAYS: 90,
      MCP_CLIENTS: [{ name: 'Console', redirectUris: ['https://console.example.com/cb'] }],
    });
  });

  test.each<[string, Record<string, string>, string]>([
    [
      'only one of the variables',
      { SIGN_IN_ISSUER: 'https://login.example.com' },
      'set together or not at all',
    ],
    ['an invalid keyring', { ...SIGN_IN, OAUTH_KEYRING: 'x' }, 'OAUTH_KEYRING'],
    [
      'an issuer without TLS',
      { ...SIGN_IN, SIGN_IN_ISSUER: 'http://127.0.0.1:1' },
      'must be https',
    ],
    [
      'a public address without TLS',
      { ...SIGN_IN, PUBLIC_BASE_URL: 'http://x.example' },
      'must be https',
    ],
    ['grants without an end', { ...SIGN_IN, MCP_GRANT_DAYS: '366' }, 'MCP_GRANT_DAYS'],
    ['clients that are not a list', { ...SIGN_IN, MCP_CLIENTS: '{}' }, 'MCP_CLIENTS'],
    [
      'a client with an http address',
      { ...SIGN_IN, MCP_CLIENTS: '[{"name":"x","redirect_uris":["http://evil.example/cb"]}]' },
      'MCP_CLIENTS',
    ],
    [
      'a form origin with a path',
      { ...SIGN_IN, SIGN_IN_FORM_ORIGINS: 'https://x/y' },
      'FORM_ORIGINS',
    ],
    [
      'a public address with a path',
      { ...SIGN_IN, PUBLIC_BASE_URL: 'https://x.example/api' },
      'must not have a path',
    ],
    [
      'a public address with a slash',
      { PUBLIC_BASE_URL: 'https://x.example/' },
      'without a trailing slash',
    ],
  ])('production rejects %s, and the error contains no secret', (_, changes, text) => {
    const start = load({ ...PRODUCTION, ...changes });
    expect(start).toThrow(text);
    expect(start).not.toThrow(SIGN_IN.OAUTH_KEYRING);
  });
});
