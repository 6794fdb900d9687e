import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';

/** A mail that a server under test has accepted. */
export interface ReceivedMail {
  readonly from: string;
  readonly to: readonly string[];
  /** Headers and body as sent. */
  readonly raw: string;
  /** Whether the connection was encrypted, and the user that logged in. */
  readonly isSecure: boolean;
  readonly user: string | undefined;
}

export interface MailServer {
  readonly port: number;
  readonly received: ReceivedMail[];
  /** Error for the next recipients or contents, such as 450; undefined accepts. */
  rejects: { readonly at: 'recipient' | 'content'; readonly code: number } | undefined;
  stop(): Promise<void>;
}

/** Starts a real SMTP server on loopback. */
export async function startMailServer(options: SMTPServerOptions = {}): Promise<MailServer> {
  const received: ReceivedMail[] = [];
  const rejection = (at: 'recipient' | 'content'): Error | undefined =>
    mails.rejects?.at === at
      ? Object.assign(new Error('not now'), { responseCode: mails.rejects.code })
      : undefined;
  const server = new SMTPServer({
    disabledCommands: ['STARTTLS', 'AUTH'],
    logger: false,
    onRcptTo: (_address, _session, callback) => callback(rejection('recipient')),
    onData(stream, { envelope, secure, user }, callback) {
      buffer(stream).then((raw) => {
        const error = rejection('content');
        if (error) return callback(error);
        received.push({
          from: envelope.mailFrom ? envelope.mailFrom.address : '',
          to: envelope.rcptTo.map(({ address }) => address),
          raw: raw.toString(),
          isSecure: secure,
          user: user === undefined ? undefined : String(user),
        });
        callback();
      }, callback);
    },
    ...options,
  });
  // Clients of the tests disconnect in the middle.
  server.on('error', () => {});
  const listening = server.listen(0, '127.0.0.1');
  await once(listening, 'listening');
  const mails: MailServer = {
    port: (listening.address() as AddressInfo).port,
    received,
    rejects: undefined,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
  return mails;
}

/** A server that says these lines, one for each line of the client, and then nothing. */
export async function startSilentServer(
  lines: readonly string[],
): Promise<{ readonly port: number; readonly heard: string[]; stop(): Promise<void> }> {
  const heard: string[] = [];
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    const rest = [...lines];
    const say = (): void => {
      const line = rest.shift();
      if (line !== undefined) socket.write(`${line}\r\n`);
    };
    say();
    socket.on('data', (chunk) => {
      heard.push(...chunk.toString().split('\r\n').filter(Boolean));
      say();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    heard,
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
