import type { KeyObject } from 'node:crypto';
import { z } from 'zod';
import { busShape, type Settings, wholeNumber } from '../../services/platform/process/config.ts';
import type { SmtpSettings } from './smtp.ts';

const NEEDED = 'needed if SMTP_URL is set';

/** The event bus. The gateway uses it only for mails. */
const optionalBusShape = {
  ...busShape,
  KAFKA_BROKERS: busShape.KAFKA_BROKERS.optional().describe(
    `Kafka brokers, as host:port separated by commas; ${NEEDED}`,
  ),
  EVENT_KEYRING: busShape.EVENT_KEYRING.optional().describe(
    `Keys that sign events, the same in every service; ${NEEDED}`,
  ),
};

/** `returns@example.com`, or `Returns <returns@example.com>`. */
const SENDER =
  /^(?:[^<>"\p{Cc}]*<[^\s<>",@\p{Cc}]+@[^\s<>",@\p{Cc}]+>|[^\s<>",@\p{Cc}]+@[^\s<>",@\p{Cc}]+)$/u;

const smtpShape = {
  SMTP_URL: z
    .url({ protocol: /^smtps?$/, error: 'must be smtp://user@host:port or smtps://user@host:port' })
    .optional()
    .describe(
      'Server that takes mails to members, such as smtps://returns@mail.example.com:465, or smtp://returns@mail.example.com:587 with STARTTLS. Without it no mails are sent. When it is first set, members get mails about the last RETENTION_DAYS',
    ),
  SMTP_PASSWORD_FILE: z
    .string()
    .optional()
    .describe('File with the password of the user in SMTP_URL, read for every mail'),
  SMTP_TLS: z
    .enum(['required', 'none'], { error: 'must be required or none' })
    .default('required')
    .describe(
      'Whether a server of smtp:// must offer STARTTLS; none, only for a server on the same machine or in the mesh, sends unencrypted',
    ),
  SMTP_TLS_CA_FILE: z
    .string()
    .optional()
    .describe("File with the authorities of that server's certificate; by default the public ones"),
  SMTP_TIMEOUT_MS: wholeNumber(1_000, 60_000)
    .default(30_000)
    .describe('Maximum milliseconds for one mail, from the connection to the response'),
  MAIL_FROM: z
    .string()
    .max(320)
    .regex(SENDER, 'must be an address, or a name and <address>')
    .optional()
    .describe(
      `Sender of mails, such as Returns <returns@example.com>; ${NEEDED}. SPF and DKIM of its domain must allow the server`,
    ),
  MAIL_GATHER_SECONDS: wholeNumber(0, 3_600)
    .default(60)
    .describe('Seconds for which a mail waits for further news about the same address'),
};

/** The variables of mails. */
export const mailShape = { ...optionalBusShape, ...smtpShape };

export type MailConfig = Settings<typeof mailShape>;

/** The settings of mails, complete. */
export type MailSettings = Omit<MailConfig, 'KAFKA_BROKERS' | 'EVENT_KEYRING'> & {
  readonly KAFKA_BROKERS: string[];
  readonly EVENT_KEYRING: ReadonlyMap<string, KeyObject>;
  readonly smtp: SmtpSettings;
};

/** Undefined when mails are off. */
export function mailSettings(config: MailConfig): MailSettings | undefined {
  const { SMTP_URL: url, MAIL_FROM: from, KAFKA_BROKERS, EVENT_KEYRING } = config;
  if (url === undefined || from === undefined || !KAFKA_BROKERS || !EVENT_KEYRING) return undefined;
  const { protocol, hostname, port, username, password } = new URL(url);
  const isSecure = protocol === 'smtps:';
  return {
    ...config,
    KAFKA_BROKERS,
    EVENT_KEYRING,
    smtp: {
      // An IPv6 address is in brackets.
      host: hostname.replace(/^\[(.*)\]$/, '$1'),
      port: Number(port) || (isSecure ? 465 : 587),
      isSecure,
      requiresTls: config.SMTP_TLS === 'required',
      caFile: config.SMTP_TLS_CA_FILE,
      user: username === '' ? undefined : decodeURIComponent(username),
      password: password === '' ? undefined : decodeURIComponent(password),
      passwordFile: config.SMTP_PASSWORD_FILE,
      from,
      timeoutMs: config.SMTP_TIMEOUT_MS,
    },
  };
}

/** The errors of settings that are valid alone, but not together. */
export function mailFaults(
  config: MailConfig & { readonly NODE_ENV: string; readonly TRANSPORT_SECURITY: string },
): string[] {
  if (config.SMTP_URL === undefined) return [];
  const needed = (['MAIL_FROM', 'KAFKA_BROKERS', 'EVENT_KEYRING'] as const).filter(
    (name) => config[name] === undefined,
  );
  const missing = needed.map((name) => `${name} is missing (${NEEDED})`);
  const isPlain = config.SMTP_URL.startsWith('smtp:') && config.SMTP_TLS === 'none';
  const mustEncrypt = config.NODE_ENV === 'production' && config.TRANSPORT_SECURITY === 'tls';
  if (!isPlain || !mustEncrypt) return missing;
  return [...missing, 'SMTP_TLS: production needs required, or TRANSPORT_SECURITY=mesh'];
}
