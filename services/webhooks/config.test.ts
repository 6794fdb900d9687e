import { describe, expect, test } from '@jest/globals';
import { loadConfig } from '../platform/config.ts';
import { newKeyringText } from '../platform/keyring.ts';
import { checkProduction, webhooksShape } from './config.ts';

const ENV = {
  DATABASE_URL: 'postgres://rms_webhooks@db/rms',
  KAFKA_BROKERS: 'kafka:9092',
  SERVICE_AUTH: 'kubernetes',
  SERVICE_TOKEN_FILE: '/token',
  SERVICE_JWKS_FILE: '/jwks',
  SERVICE_ISSUER: 'https://kubernetes.default.svc',
  SERVICE_SUBJECTS: 'system:serviceaccount:rms:*',
  RETURNS_TARGET: 'dns:///returns:8080',
  EVENT_KEYRING: newKeyringText(),
  WEBHOOK_KEYRING: newKeyringText(),
};
const load = (more: object) => loadConfig(webhooksShape, { ...ENV, ...more });

describe("the webhooks service's configuration", () => {
  test('keeps the log for 30 days, and allows public addresses only', () => {
    expect(load({})).toMatchObject({ WEBHOOK_LOG_DAYS: 30, WEBHOOK_ALLOWED_ORIGINS: [] });
  });

  test.each([
    ['WEBHOOK_ALLOWED_ORIGINS', 'http://127.0.0.1:*'],
    ['API_CALENDAR', '2027-08-01'],
  ])('%s is for trials and refused in production', (name, value) => {
    expect(() => checkProduction(load({ [name]: value }))).not.toThrow();
    const inProduction = { NODE_ENV: 'production', TRANSPORT_SECURITY: 'mesh' };
    expect(() => checkProduction(load({ ...inProduction, [name]: value }))).toThrow(name);
    expect(() => checkProduction(load(inProduction))).not.toThrow();
  });
});
