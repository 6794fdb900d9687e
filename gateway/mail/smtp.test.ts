import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import PostalMime from 'postal-mime';
import { createAuthority } from '../../test/kit/certificates.ts';
import {
  type MailServer,
  startMailServer,
  startSilentServer,
} from '../../test/kit/mail/mail-server.ts';
import { type Message, type SmtpSettings, sendMail } from './smtp.ts';

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
