import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import PostalMime from 'postal-mime';
import { SMTPServer } from 'smtp-server';
import type { Stopper } from './plan.ts';

/** A caught mail, as the control server returns it. */
export interface CaughtMail {
  readonly to: string;
  readonly from: string;
  readonly subject: string;
  readonly text: string;
  /** When it was caught. */
  readonly at: string;
}

/** A mail server that keeps every mail and sends none. */
export interface MailCatcher extends Stopper {
  readonly url: string;
  /** The caught mails, newest first; those to one address, or all. */
  mails(to?: string): readonly CaughtMail[];
}

/** Maximum number of kept mails; the oldest are dropped. */
const MAX_MAILS = 1_000;
/** Maximum size of a mail. Bytes. */
const MAX_BYTES = 256 * 1024;

/**
 * Starts the mail server of a local stack or of the demo in a cluster. It takes mails without encryption and login.
 *
 * @param o.port 0 takes a free one.
 */
export async function startMailCatcher(
  o: { readonly host: string; readonly port: number } = { host: '127.0.0.1', port: 0 },
): Promise<MailCatcher> {
  const caught: CaughtMail[] = [];
  const server = new SMTPServer({
    disabledCommands: ['STARTTLS', 'AUTH'],
    logger: false,
    size: MAX_BYTES,
    onData(stream, session, callback) {
      const to = session.envelope.rcptTo.map(({ address }) => address);
      keep(caught, to, stream).then(() => callback(), callback);
    },
  });
  // A client that disconnects early must not end the process.
  server.on('error', () => {});
  const listening = server.listen(o.port, o.host);
  await once(listening, 'listening');
  const { port } = listening.address() as AddressInfo;
  return {
    url: `smtp://127.0.0.1:${port}`,
    mails: (to) => caught.filter((one) => to === undefined || one.to === to),
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

async function keep(
  caught: CaughtMail[],
  recipients: readonly string[],
  stream: NodeJS.ReadableStream,
): Promise<void> {
  const { from, subject = '', text = '' } = await PostalMime.parse(await bytesOf(stream));
  const mail = { from: from?.address ?? '', subject, text, at: new Date().toISOString() };
  for (const to of recipients) caught.unshift({ to, ...mail });
  caught.splice(MAX_MAILS);
}

/** Throws for a mail that is too large, after the client has sent all of it. */
async function bytesOf(stream: NodeJS.ReadableStream): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream) {
    size += chunk.length;
    if (size <= MAX_BYTES) chunks.push(Buffer.from(chunk));
  }
  if (size > MAX_BYTES) throw new Error(`a mail has at most ${MAX_BYTES} bytes`);
  return Buffer.concat(chunks);
}
