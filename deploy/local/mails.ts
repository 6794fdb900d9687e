import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
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

/** A mail server on loopback that keeps every mail and sends none. */
export interface MailCatcher extends Stopper {
  readonly url: string;
  /** The caught mails, newest first; those to one address, or all. */
  mails(to?: string): readonly CaughtMail[];
}

/** Maximum number of kept mails; the oldest are dropped. */
const MAX_MAILS = 1_000;

/** Starts the mail server of a local stack. It takes mails without encryption and login. */
export async function startMailCatcher(): Promise<MailCatcher> {
  const caught: CaughtMail[] = [];
  const server = new SMTPServer({
    disabledCommands: ['STARTTLS', 'AUTH'],
    logger: false,
    onData(stream, session, callback) {
      const to = session.envelope.rcptTo.map(({ address }) => address);
      keep(caught, to, stream).then(() => callback(), callback);
    },
  });
  // A client that disconnects early must not end the stack.
  server.on('error', () => {});
  const listening = server.listen(0, '127.0.0.1');
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
  const { from, subject = '', text = '' } = await PostalMime.parse(await buffer(stream));
  const mail = { from: from?.address ?? '', subject, text, at: new Date().toISOString() };
  for (const to of recipients) caught.unshift({ to, ...mail });
  caught.splice(MAX_MAILS);
}
