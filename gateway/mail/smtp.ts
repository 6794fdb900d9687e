import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import MailComposer from 'nodemailer/lib/mail-composer';
import SMTPConnection, { type SMTPConnectionOptions } from 'nodemailer/lib/smtp-connection';
import { within } from '../../services/platform/process/within.ts';

export interface SmtpSettings {
  readonly host: string;
  readonly port: number;
  /** TLS from the first byte; else STARTTLS if `requiresTls`. */
  readonly isSecure: boolean;
  readonly requiresTls: boolean;
  readonly caFile: string | undefined;
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** Read for each connection, so that a new password needs no restart. */
  readonly passwordFile: string | undefined;
  /** Name and address of the sender. */
  readonly from: string;
  /** Maximum time of one mail, from the connection to the response. Milliseconds. */
  readonly timeoutMs: number;
}

export interface Message {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  /** The same for each try of a mail, so that a mail server can recognise a repeat. */
  readonly messageId: string;
}

/**
 * The result of one try. `retry`: no server has the mail. `final`: the server will not take it. `unknown`: the server
 * got the content and did not respond.
 */
export type SmtpResult =
  | { readonly kind: 'sent' }
  | { readonly kind: 'retry' | 'final' | 'unknown'; readonly error: string };

/**
 * Sends one mail over a connection of its own. Never rejects because of the server.
 *
 * @param handOver called when the server has accepted the envelope and waits for the content. Nothing of the content is
 *   sent before it resolves, or if it rejects.
 */
export async function sendMail(
  o: SmtpSettings,
  message: Message,
  handOver: () => Promise<void>,
): Promise<SmtpResult> {
  let isHandedOver = false;
  let connection: SMTPConnection | undefined;
  try {
    const { envelope, content } = await composed(o, message);
    connection = new SMTPConnection(await optionsOf(o));
    async function* body(): AsyncGenerator<Buffer> {
      await handOver();
      isHandedOver = true;
      yield content;
    }
    const work = transmit(connection, o, { envelope, body: Readable.from(body()) });
    if (!(await within(o.timeoutMs, work))) throw new Error(`no result after ${o.timeoutMs} ms`);
    return { kind: 'sent' };
  } catch (error) {
    return { kind: kindOf(error, isHandedOver), error: textOf(error) };
  } finally {
    connection?.close();
  }
}

async function composed({ from }: SmtpSettings, message: Message) {
  const { to, subject, text, messageId } = message;
  const node = new MailComposer({
    from,
    to: { name: '', address: to },
    subject,
    text,
    messageId: `<${messageId}>`,
    // RFC 3834: no automatic replies to an automatic mail.
    headers: { 'Auto-Submitted': 'auto-generated' },
    disableFileAccess: true,
    disableUrlAccess: true,
  }).compile();
  const { from: sender } = node.getEnvelope();
  const content = await node.build();
  return { envelope: { from: sender, to: [to], size: content.length }, content };
}

/** Each phase has its own limit below the limit of the whole, so that the error says which one hangs. */
async function optionsOf(o: SmtpSettings): Promise<SMTPConnectionOptions> {
  const { host, port, isSecure, requiresTls, caFile, timeoutMs } = o;
  const phaseMs = Math.ceil(timeoutMs / 3);
  return {
    host,
    port,
    secure: isSecure,
    requireTLS: !isSecure && requiresTls,
    ignoreTLS: !isSecure && !requiresTls,
    tls: { minVersion: 'TLSv1.2', ...(caFile !== undefined && { ca: await readFile(caFile) }) },
    connectionTimeout: phaseMs,
    dnsTimeout: phaseMs,
    greetingTimeout: phaseMs,
    socketTimeout: phaseMs,
    socketCloseTimeout: 0,
    maxResponseSize: 64 * 1024,
  };
}

async function transmit(
  connection: SMTPConnection,
  o: SmtpSettings,
  {
    envelope,
    body,
  }: { envelope: { from: string | false; to: string[]; size: number }; body: Readable },
): Promise<void> {
  const pass = await passwordOf(o);
  await new Promise<void>((resolve, reject) => {
    connection.on('error', reject);
    const then =
      (next: () => void) =>
      (error?: Error | null): void =>
        error ? reject(error) : next();
    const send = (): void => connection.send(envelope, body, then(resolve));
    const logIn = (): void =>
      o.user === undefined || pass === undefined
        ? send()
        : connection.login({ user: o.user, pass }, then(send));
    connection.connect(then(logIn));
  });
  connection.quit();
}

/** Without a user nobody logs in, so the file need not exist. */
async function passwordOf(o: SmtpSettings): Promise<string | undefined> {
  const { user, password, passwordFile } = o;
  if (user === undefined || passwordFile === undefined) return password;
  return (await readFile(passwordFile, 'utf8')).trim();
}

/** The commands of a mail. A 5xx to others, such as a rejected login, is for the operator, and the mail waits. */
const OF_THE_MAIL: ReadonlySet<unknown> = new Set(['MAIL FROM', 'RCPT TO', 'DATA']);

function kindOf(error: unknown, isHandedOver: boolean): 'retry' | 'final' | 'unknown' {
  const { responseCode, command, code } = detailsOf(error);
  if (typeof responseCode === 'number' && responseCode > 0) {
    return responseCode >= 500 && OF_THE_MAIL.has(command) ? 'final' : 'retry';
  }
  // Our own check of the envelope: no server would take this address.
  if (code === 'EENVELOPE' && command === 'API') return 'final';
  return isHandedOver ? 'unknown' : 'retry';
}

/** The error for operators: the code and the response code, without the text of the server, which may have addresses. */
function textOf(error: unknown): string {
  const { responseCode, command, code } = detailsOf(error);
  const parts = [command, code, responseCode].filter((part) => part !== undefined);
  if (parts.length > 0) return parts.join(' ');
  return error instanceof Error ? error.message : 'unknown error';
}

function detailsOf(error: unknown): Readonly<Record<'responseCode' | 'command' | 'code', unknown>> {
  const {
    responseCode,
    command,
    code,
  }: { responseCode?: unknown; command?: unknown; code?: unknown } =
    typeof error === 'object' && error !== null ? error : {};
  return { responseCode, command, code };
}
