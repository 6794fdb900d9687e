import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import PostalMime from 'postal-mime';
import { ConfigError } from '../../services/platform/process/config.ts';
import { newKeyringText } from '../../services/platform/security/keyring.ts';
import { forTargets } from '../../services/platform/services.ts';
import { createAuthority } from '../../test/kit/certificates.ts';
import {
  type MailServer,
  startMailServer,
  startSilentServer,
} from '../../test/kit/mail/mail-server.ts';
import { loadGatewayConfig } from '../config.ts';
import { mailSettings } from './config.ts';
import type { Fact } from './facts.ts';
import { type Message, type SmtpSettings, sendMail } from './smtp.ts';
import { mailText } from './texts.ts';

describe('a mail over SMTP', () => {
  let server: MailServer;
  const folder = mkdtempSync(join(tmpdir(), 'mail-'));
  beforeAll(async () => {
    server = await startMailServer();
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true });
    await server.stop();
  });
  afterEach(() => {
    server.received.length = 0;
    server.rejects = undefined;
  });

  const MESSAGE: Message = {
    to: 'ada@example.com',
    subject: 'Webhooks fail',
    text: 'Plain text.\n',
    messageId: '1.2@api.example.com',
  };
  /** Long enough for a slow machine. Only servers that hang use it up. */
  const PATIENT_MS = 30_000;

  function settings(o: Partial<SmtpSettings> = {}): SmtpSettings {
    return {
      host: '127.0.0.1',
      port: server.port,
      isSecure: false,
      requiresTls: false,
      caFile: undefined,
      user: undefined,
      password: undefined,
      passwordFile: undefined,
      from: 'Returns <returns@example.com>',
      timeoutMs: PATIENT_MS,
      ...o,
    };
  }

  const send = (o: Partial<SmtpSettings> = {}, message: Partial<Message> = {}) =>
    sendMail(settings(o), { ...MESSAGE, ...message }, async () => {});

  describe('a mail', () => {
    test('arrives with its headers, and as plain text', async () => {
      expect(await send()).toEqual({ kind: 'sent' });
      const [mail, ...more] = server.received;
      expect(more).toEqual([]);
      expect(mail).toMatchObject({ from: 'returns@example.com', to: ['ada@example.com'] });
      const parsed = await PostalMime.parse(mail?.raw ?? '');
      expect(parsed).toMatchObject({
        from: { name: 'Returns', address: 'returns@example.com' },
        to: [{ address: 'ada@example.com' }],
        subject: 'Webhooks fail',
        text: 'Plain text.\n',
        messageId: '<1.2@api.example.com>',
      });
      expect(mail?.raw).toMatch(/^Auto-Submitted: auto-generated\r$/m);
    });

    test('has no header that a text adds', async () => {
      const subject = 'Shop\r\nBcc: eve@example.com\r\n\r\nHello';
      expect(await send({}, { subject, messageId: '1@a>\r\nX-Evil: 1' })).toEqual({ kind: 'sent' });
      const [mail] = server.received;
      expect(mail?.to).toEqual(['ada@example.com']);
      const { headers } = await PostalMime.parse(mail?.raw ?? '');
      const names = headers.map(({ key }) => key);
      expect(names).not.toContain('bcc');
      expect(names).not.toContain('x-evil');
    });

    test.each(['ada@example.com\r\nRCPT TO:<eve@example.com>', 'ada@example.com>', '<eve@x>@y'])(
      'is not sent to the address %j',
      async (to) => {
        expect(await send({}, { to })).toMatchObject({ kind: 'final' });
        expect(server.received).toEqual([]);
      },
    );
  });

  describe('encryption', () => {
    const authority = createAuthority('Test authority');
    const { cert, key } = authority.issue({ address: '127.0.0.1' });
    const caFile = join(folder, 'ca.crt');
    const passwordFile = join(folder, 'password');
    writeFileSync(caFile, authority.cert);

    test('is required: a server without it gets no mail', async () => {
      expect(await send({ requiresTls: true })).toMatchObject({ kind: 'retry' });
      expect(server.received).toEqual([]);
    });

    test('and a login with the password of a file, which is read for each mail', async () => {
      const secure = await startMailServer({
        cert,
        key,
        disabledCommands: [],
        logger: false,
        onAuth: ({ username, password }, _session, callback) =>
          password === 'sesame'
            ? callback(null, { user: username ?? '' })
            : callback(Object.assign(new Error('wrong'), { responseCode: 535 })),
      });
      const o = { port: secure.port, requiresTls: true, caFile, user: 'returns', passwordFile };
      writeFileSync(passwordFile, 'old\n');
      // A wrong password is for the operator: the mail waits.
      expect(await send(o)).toMatchObject({ kind: 'retry' });
      writeFileSync(passwordFile, 'sesame\n');
      expect(await send(o)).toEqual({ kind: 'sent' });
      expect(secure.received).toMatchObject([{ isSecure: true, user: 'returns' }]);
      // The authority is not one of the public ones.
      expect(await send({ ...o, caFile: undefined })).toMatchObject({ kind: 'retry' });
      await secure.stop();
    });

    test('from the first byte with smtps', async () => {
      const secure = await startMailServer({ cert, key, secure: true, disabledCommands: ['AUTH'] });
      expect(await send({ port: secure.port, isSecure: true, caFile })).toEqual({ kind: 'sent' });
      expect(secure.received).toMatchObject([{ isSecure: true }]);
      await secure.stop();
    });
  });

  describe('a server that does not take the mail', () => {
    test.each([
      ['recipient', 450, 'retry'],
      ['content', 451, 'retry'],
      ['recipient', 550, 'final'],
      ['content', 554, 'final'],
    ] as const)('at the %s with %d: %s', async (at, code, kind) => {
      server.rejects = { at, code };
      const result = await send();
      expect(result).toMatchObject({ kind, error: expect.stringContaining(String(code)) });
      // The text of a server may have addresses.
      expect(result).not.toMatchObject({ error: expect.stringContaining('not now') });
    });

    test('because nothing listens: it is tried again', async () => {
      const gone = await startSilentServer([]);
      await gone.stop();
      expect(await send({ port: gone.port })).toMatchObject({ kind: 'retry' });
    });

    const DIALOGUE = ['220 hi', '250 hello', '250 sender', '250 recipient'];
    test.each([0, 1, 2, 3, 4])(
      'because it hangs after %d answers: it is tried again, and no content was sent',
      async (answers) => {
        const silent = await startSilentServer(DIALOGUE.slice(0, answers));
        const result = await send({ port: silent.port, timeoutMs: 1_000 });
        expect(result).toMatchObject({ kind: 'retry' });
        expect(silent.heard.join()).not.toContain('Plain text');
        await silent.stop();
      },
    );

    test('because it hangs with the content: nobody knows whether it took the mail', async () => {
      const silent = await startSilentServer([...DIALOGUE, '354 go ahead']);
      const result = await send({ port: silent.port, timeoutMs: 3_000 });
      expect(result).toMatchObject({ kind: 'unknown' });
      expect(silent.heard.join()).toContain('Plain text');
      await silent.stop();
    });
  });

  test('nothing of the content is sent if the hand-over is not recorded', async () => {
    const result = await sendMail(settings(), MESSAGE, async () => {
      throw new Error('the lease is lost');
    });
    expect(result).toMatchObject({ kind: 'retry' });
    expect(server.received).toEqual([]);
  });
});

const GATEWAY = {
  DATABASE_URL: 'postgres://rms_gateway:x@127.0.0.1/rms',
  SERVICE_TOKEN: 't'.repeat(32),
  ...forTargets(() => '127.0.0.1:1'),
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
  TRUSTED_PROXIES: '10.0.0.0/8',
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
    const { GRPC_TLS_CA_FILE: _, ...inMesh } = { ...production, TRANSPORT_SECURITY: 'mesh' };
    expect(problemsOf(inMesh)).toEqual([]);
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
  const production = { NODE_ENV: 'production', TRUSTED_PROXIES: '10.0.0.0/8' };
  const aboutKafka = (env: Readonly<Record<string, string>>) =>
    problemsOf({ ...production, ...env }).filter((one) => one.startsWith('KAFKA_TLS'));
  expect(aboutKafka({})).toEqual([]);
  expect(aboutKafka(MAIL)).toHaveLength(1);
});

const AT = '2026-11-24T05:30:59.123Z';
const subscription = {
  id: '7',
  host: 'hooks.example.com',
  topic: 'return',
  trigger: 'return.closed',
};
const about = { at: AT, subscription, last_error: 'answered 500' };
const times = {
  failing_since: '2026-11-22T01:00:00.000Z',
  disables_at: '2026-11-27T01:00:00.000Z',
};
const context = {
  shopName: 'Hats',
  publicUrl: 'https://api.example.com',
  by: 'ada@example.com',
  who: 'bo@example.com',
  hasPortal: true,
};

const FACTS: Readonly<Record<Fact['kind'], Fact>> = {
  endpoint_failing: { kind: 'endpoint_failing', ...about, ...times, percent: 50, failures: 12 },
  endpoint_disabled: {
    kind: 'endpoint_disabled',
    ...about,
    reason: 'failures',
    failures: 40,
    failing_since: times.failing_since,
  },
  endpoint_exhausted: { kind: 'endpoint_exhausted', ...about, deliveries: 3 },
  secret_revealed: {
    kind: 'secret_revealed',
    at: AT,
    subscription,
    rotated: false,
    by: { kind: 'user', id: '1', name: 'Ada' },
  },
  assistant_connected: {
    kind: 'assistant_connected',
    at: AT,
    user_id: '1',
    client_id: 'claude',
    app: 'claude.ai',
  },
  owner_added: { kind: 'owner_added', at: AT, user_id: '2', by_user_id: '1' },
  api_key_made: {
    kind: 'api_key_made',
    at: AT,
    user_id: '1',
    key_id: 'k3v9x0aabbcc',
    description: 'ERP',
    scopes: ['returns'],
    rotated: false,
    waiting: false,
  },
  new_device: {
    kind: 'new_device',
    at: AT,
    user_id: '1',
    device: 'Safari on iPhone',
    source: '192.0.2.1',
  },
  app_installed: {
    kind: 'app_installed',
    at: AT,
    user_id: '1',
    client_id: 'app-1',
    name: 'Parcels',
    scopes: ['labels:write'],
    waiting_scopes: ['developer_tools'],
  },
};

describe('a mail', () => {
  test.each(Object.values(FACTS))(
    'about $kind says what happened, where, and what to do',
    (fact) => {
      const { subject, text } = mailText([fact], context);
      expect(subject).toMatch(/^\[Hats\] /);
      expect(text).toContain('Shop: Hats');
      expect(text).toContain('https://api.example.com/docs');
      expect(text).toContain('You get this mail because');
      expect(text).toContain(
        fact.kind === 'endpoint_failing' ? '2026-11-22 01:00 UTC' : '2026-11-24 05:30 UTC',
      );
      expect(text).not.toMatch(/undefined|null|NaN/);
    },
  );

  test('about a failing endpoint names every subscription, its last error and the day on which it becomes inactive', () => {
    const other = { ...FACTS.endpoint_failing, subscription: { ...subscription, id: '8' } } as Fact;
    const { text } = mailText([FACTS.endpoint_failing, other], context);
    expect(text).toContain('subscription 7 (topic return, trigger return.closed)');
    expect(text).toContain('subscription 8 (topic return, trigger return.closed)');
    expect(text).toContain('answered 500');
    expect(text).toContain('2026-11-27 01:00 UTC');
  });

  test('about an endpoint with inactive subscriptions says whether it answered 410', () => {
    expect(mailText([FACTS.endpoint_disabled], context).text).not.toContain('410');
    const gone = { ...FACTS.endpoint_disabled, reason: 'gone' } as Fact;
    expect(mailText([gone], context).text).toContain('answered 410 Gone');
  });

  test('about an API key that waits says that an owner must approve it', () => {
    const { subject, text } = mailText([{ ...FACTS.api_key_made, waiting: true } as Fact], context);
    expect(subject).toBe('[Hats] An API key waits for you: ERP');
    expect(text).toContain('See, submit, change and, with an API key, process returns');
    expect(text).toContain('It does not work until an owner approves it in the portal.');
    expect(mailText([FACTS.api_key_made], context).text).not.toContain('approve');
  });

  test('says who saw the secret, connected the assistant or made an owner', () => {
    for (const fact of [
      FACTS.secret_revealed,
      FACTS.assistant_connected,
      FACTS.owner_added,
      FACTS.api_key_made,
    ]) {
      expect(mailText([fact], context).text).toContain('By: ada@example.com');
    }
  });
});

describe('the pages of the portal that a mail links to', () => {
  const PORTAL = 'https://api.example.com/portal';
  const linksOf = (facts: readonly Fact[]) =>
    [...mailText(facts, context).text.matchAll(/^- .*: (https:\S+)$/gm)].map(([, link]) => link);

  test.each([
    ['endpoint_failing', ['/webhooks/7', '/deliveries?webhook=7&state=waiting']],
    ['endpoint_disabled', ['/webhooks/7', '/deliveries?webhook=7&state=held']],
    ['endpoint_exhausted', ['/webhooks/7', '/deliveries?webhook=7&state=exhausted']],
    ['secret_revealed', ['/webhooks/7', '/audit-log']],
    ['assistant_connected', ['/assistants', '/team', '/audit-log']],
    ['owner_added', ['/team', '/audit-log']],
    ['new_device', ['/sessions']],
    ['api_key_made', ['/api-keys', '/team', '/audit-log']],
  ] as const)('are those about %s', (kind, paths) => {
    expect(linksOf([FACTS[kind]])).toEqual(paths.map((path) => `${PORTAL}${path}`));
    expect(mailText([FACTS[kind]], context).text).toContain('choose Hats there');
  });

  test('are the lists when it is about several subscriptions', () => {
    const other = { ...FACTS.endpoint_failing, subscription: { ...subscription, id: '8' } } as Fact;
    expect(linksOf([FACTS.endpoint_failing, other])).toEqual([
      `${PORTAL}/webhooks`,
      `${PORTAL}/deliveries?state=waiting`,
    ]);
  });

  test('are absent when nobody can sign in there', () => {
    for (const fact of Object.values(FACTS)) {
      expect(mailText([fact], { ...context, hasPortal: false }).text).not.toContain('/portal');
    }
  });
});

test('no name, host or error adds a line, and no subject has a control character', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...Object.values(FACTS)),
      fc.string({ unit: 'binary', minLength: 1, maxLength: 300 }),
      (fact, hostile) => {
        const evil = `${hostile}\r\nBcc: eve@example.com\u2028\u202e`;
        const changed = {
          ...fact,
          ...('subscription' in fact && {
            subscription: { id: '7', host: evil, topic: evil, trigger: evil },
          }),
          ...('last_error' in fact && { last_error: evil }),
          ...('app' in fact && { app: evil }),
        } as Fact;
        const plainLines = mailText([fact], context).text.split('\n').length;
        const { subject, text } = mailText([changed], {
          ...context,
          shopName: evil,
          by: evil,
          who: evil,
        });
        expect(subject).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
        expect(subject.length).toBeLessThan(400);
        expect(text.split(/[\r\n\u2028\u2029]/)).toHaveLength(plainLines);
      },
    ),
  );
});
