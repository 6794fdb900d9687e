import { describe, expect, test } from '@jest/globals';
import { ConfigError } from '../../services/platform/config.ts';
import { newKeyringText } from '../../services/platform/keyring.ts';
import { loadGatewayConfig } from '../config.ts';
import { mailSettings } from './config.ts';

const TARGETS = ['RETURNS', 'DISPOSITIONS', 'DESTINATIONS', 'FRAUD', 'CARTS', 'WEBHOOKS'];
const GATEWAY = {
  DATABASE_URL: 'postgres://rms_gateway:x@127.0.0.1/rms',
  SERVICE_TOKEN: 't'.repeat(32),
  ...Object.fromEntries(TARGETS.map((name) => [`${name}_TARGET`, '127.0.0.1:1'])),
};
const MAIL = {
  SMTP_URL: 'smtp://returns%40example.com:p%3Aw@mail.example.com',
  MAIL_FROM: 'Returns <returns@example.com>',
  KAFKA_BROKERS: 'kafka:9092',
  EVENT_KEYRING: newKeyringText(),
};
/** A gateway in production whose connections are all encrypted. */
const PRODUCTION = {
  NODE_ENV: 'production',
  TRUSTED_PROXIES: 'none',
  KAFKA_TLS: 'true',
  GRPC_TLS_CA_FILE: '/ca.crt',
  SERVICE_AUTH: 'kubernetes',
  SERVICE_TOKEN_FILE: '/token',
  SERVICE_JWKS_FILE: '/keys',
  SERVICE_ISSUER: 'https://cluster',
  SERVICE_SUBJECTS: 'system:serviceaccount:rms:gateway',
  DATABASE_URL: `${GATEWAY.DATABASE_URL}?sslmode=verify-full`,
};
const load = (env: Readonly<Record<string, string>>) => loadGatewayConfig({ ...GATEWAY, ...env });
const problemsOf = (env: Readonly<Record<string, string>>): readonly string[] => {
  try {
    load(env);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
};

test('a gateway without SMTP_URL sends no mails, and needs neither Kafka nor keys', () => {
  expect(mailSettings(load({}))).toBeUndefined();
  const { SMTP_URL, ...rest } = MAIL;
  expect(mailSettings(load(rest))).toBeUndefined();
});

describe('the mail server', () => {
  test('is reached with STARTTLS on port 587, with the login of the URL', () => {
    expect(mailSettings(load(MAIL))?.smtp).toMatchObject({
      host: 'mail.example.com',
      port: 587,
      isSecure: false,
      requiresTls: true,
      user: 'returns@example.com',
      password: 'p:w',
      from: MAIL.MAIL_FROM,
    });
  });

  test('is reached with TLS from the start on port 465, with smtps', () => {
    const settings = mailSettings(load({ ...MAIL, SMTP_URL: 'smtps://[2001:db8::1]' }));
    expect(settings?.smtp).toMatchObject({
      host: '2001:db8::1',
      port: 465,
      isSecure: true,
      user: undefined,
    });
  });

  test('may be unencrypted if said so, but not in production', () => {
    const plain = { ...MAIL, SMTP_TLS: 'none' };
    expect(mailSettings(load(plain))?.smtp.requiresTls).toBe(false);
    const production = { ...plain, ...PRODUCTION };
    expect(problemsOf(production)).toEqual([expect.stringMatching(/^SMTP_TLS: production/)]);
    expect(problemsOf({ ...production, TRANSPORT_SECURITY: 'mesh' })).toEqual([]);
  });
});

test('names what is missing, and repeats no value', () => {
  expect(problemsOf({ SMTP_URL: MAIL.SMTP_URL })).toEqual([
    expect.stringMatching(/^MAIL_FROM is missing/),
    expect.stringMatching(/^KAFKA_BROKERS is missing/),
    expect.stringMatching(/^EVENT_KEYRING is missing/),
  ]);
  const problems = problemsOf({ ...MAIL, SMTP_URL: 'https://user:sesame@example.com' });
  expect(problems).toEqual([expect.stringMatching(/^SMTP_URL: must be smtp:/)]);
  expect(problems.join()).not.toContain('sesame');
});

test.each(['nobody', 'A\r\nBcc: eve@example.com <a@example.com>', '<a@b> <c@d>', 'a@b, c@d'])(
  'MAIL_FROM %j is rejected',
  (MAIL_FROM) => {
    expect(problemsOf({ ...MAIL, MAIL_FROM })).toEqual([expect.stringMatching(/^MAIL_FROM: /)]);
  },
);

test('production needs TLS to Kafka only with mails', () => {
  const production = { NODE_ENV: 'production', TRUSTED_PROXIES: 'none' };
  const aboutKafka = (env: Readonly<Record<string, string>>) =>
    problemsOf({ ...production, ...env }).filter((one) => one.startsWith('KAFKA_TLS'));
  expect(aboutKafka({})).toEqual([]);
  expect(aboutKafka(MAIL)).toHaveLength(1);
});
