import { describe, expect, test } from '@jest/globals';
import { loadGatewayConfig, partnerOAuth } from './config.ts';

const ENV = {
  DATABASE_URL: 'postgres://rms_gateway@db/rms',
  SERVICE_TOKEN: 'a'.repeat(32),
  RETURNS_TARGET: 'dns:///returns:8080',
  DISPOSITIONS_TARGET: 'dns:///dispositions:8080',
  DESTINATIONS_TARGET: 'dns:///destinations:8080',
  FRAUD_TARGET: 'dns:///fraud:8080',
  CARTS_TARGET: 'dns:///carts:8080',
  WEBHOOKS_TARGET: 'dns:///webhooks:8080',
};
const PRODUCTION = {
  ...ENV,
  NODE_ENV: 'production',
  SERVICE_AUTH: 'kubernetes',
  SERVICE_TOKEN_FILE: '/token',
  SERVICE_JWKS_FILE: '/jwks',
  SERVICE_ISSUER: 'https://kubernetes.default.svc',
  SERVICE_SUBJECTS: 'system:serviceaccount:rms:*',
  TRANSPORT_SECURITY: 'mesh',
  TRUSTED_PROXIES: '10.0.0.0/8',
};

describe("the gateway's configuration", () => {
  test('needs a database, a service token and the services; the rest has defaults', () => {
    expect(loadGatewayConfig(ENV)).toMatchObject({
      REST_PER_MINUTE: 300,
      FAILED_CREDENTIALS_PER_MINUTE: 60,
      DOCS_ENABLED: true,
    });
    expect(() => loadGatewayConfig({})).toThrow(/CARTS_TARGET.*DATABASE_URL.*SERVICE_TOKEN/s);
  });

  test('API_CALENDAR moves the version calendar, but not in production', () => {
    const moved = { API_CALENDAR: '2027-08-01' };
    expect(loadGatewayConfig({ ...ENV, ...moved }).API_CALENDAR).toEqual(
      new Date('2027-08-01T00:00:00Z'),
    );
    expect(() => loadGatewayConfig({ ...PRODUCTION, ...moved })).toThrow(/API_CALENDAR/);
    expect(() => loadGatewayConfig(PRODUCTION)).not.toThrow();
  });

  test("partners' issuer and its keys belong together", () => {
    const half = { ...ENV, PARTNER_ISSUER: 'https://auth.example.com' };
    expect(() => loadGatewayConfig(half)).toThrow(/PARTNER_JWKS_URL/);
    const whole = {
      ...half,
      PARTNER_JWKS_URL: 'https://auth.example.com/jwks',
      PUBLIC_BASE_URL: 'https://api.example.com',
    };
    expect(partnerOAuth(loadGatewayConfig(whole))).toEqual({
      issuer: 'https://auth.example.com',
      jwksUrl: 'https://auth.example.com/jwks',
      audience: 'https://api.example.com',
      shopClaim: 'shop_id',
      userClaim: undefined,
    });
  });

  test.each([
    ['PARTNER_ISSUER', 'http://auth.example.com'],
    ['PARTNER_JWKS_URL', 'http://auth.example.com/jwks'],
  ])('%s without TLS is rejected only in production', (name, address) => {
    const partners = {
      PARTNER_ISSUER: 'https://auth.example.com',
      PARTNER_JWKS_URL: 'https://auth.example.com/jwks',
    };
    const open = { ...partners, [name]: address };
    expect(() => loadGatewayConfig({ ...PRODUCTION, ...open })).toThrow(`${name}: must be https`);
    expect(() => loadGatewayConfig({ ...PRODUCTION, ...partners })).not.toThrow();
    expect(() => loadGatewayConfig({ ...ENV, ...open })).not.toThrow();
  });

  describe('TRUSTED_PROXIES', () => {
    const proxies = (text: string, env: Record<string, string> = PRODUCTION) =>
      loadGatewayConfig({ ...env, TRUSTED_PROXIES: text }).TRUSTED_PROXIES;

    test('are required in production; the value may be "none"', () => {
      expect(() => proxies('')).toThrow(/TRUSTED_PROXIES is missing/);
      expect(proxies('none')).toEqual([]);
      expect(proxies('10.0.0.0/8, fd00::/8,192.0.2.1')).toEqual([
        '10.0.0.0/8',
        'fd00::/8',
        '192.0.2.1',
      ]);
    });

    test('are optional outside of production', () => {
      expect(loadGatewayConfig(ENV).TRUSTED_PROXIES).toBeUndefined();
      expect(proxies('127.0.0.1', ENV)).toEqual(['127.0.0.1']);
    });

    test.each([
      '0.0.0.0/0',
      '::/0',
      '10.0.0.0/8,::/0',
      '0.0.0.0/1,128.0.0.0/1',
      'none,10.0.0.1',
      'x',
    ])('%s is always rejected', (text) => {
      for (const env of [ENV, PRODUCTION]) {
        expect(() => proxies(text, env)).toThrow(
          /TRUSTED_PROXIES: (must be addresses|has a range wider than)/,
        );
      }
    });
  });
});
