import { once } from 'node:events';
import { buffer } from 'node:stream/consumers';
import { SMTPServer } from 'smtp-server';
import { freePort } from '../../../deploy/local/free-ports.ts';

/** The step of a mail at which the server does not respond: before or after the client sent the content. */
export type Hold = 'recipient' | 'content';

/** A real mail server, which can be unavailable and slow. */
export interface FaultyMailServer {
  readonly port: number;
  /** The `Message-ID` of each mail whose whole content has arrived, also if the server never responded. */
  readonly arrived: readonly string[];
  /** Stops responding at a step, or responds to everything that waits. */
  hold(at: Hold | undefined): void;
  /** Number of clients that wait for a response. */
  held(): number;
  /** Whether the server accepts connections. */
  listen(on: boolean): Promise<void>;
}

/** Starts a mail server on loopback. */
export async function startFaultyMailServer(): Promise<FaultyMailServer> {
  const port = await freePort();
  const arrived: string[] = [];
  let holds: Hold | undefined;
  let waiting: (() => void)[] = [];
  let server: SMTPServer | undefined;
  const respond = (at: Hold, response: () => void): void => {
    if (holds === at) waiting.push(response);
    else response();
  };

  const create = (): SMTPServer => {
    const made = new SMTPServer({
      disabledCommands: ['STARTTLS', 'AUTH'],
      logger: false,
      closeTimeout: 1,
      onRcptTo: (_address, _session, callback) => respond('recipient', () => callback()),
      onData(stream, _session, callback) {
        buffer(stream).then((raw) => {
          arrived.push(/^message-id: <([^>]+)>/im.exec(raw.toString())?.[1] ?? 'no id');
          respond('content', () => callback());
        }, callback);
      },
    });
    // Killed clients disconnect in the middle.
    made.on('error', () => {});
    return made;
  };
  const faulty: FaultyMailServer = {
    port,
    arrived,
    hold(at) {
      holds = at;
      const responses = waiting;
      waiting = [];
      for (const response of responses) response();
    },
    held: () => waiting.length,
    async listen(on) {
      if (on === (server !== undefined)) return;
      if (on) {
        server = create();
        await once(server.listen(port, '127.0.0.1'), 'listening');
        return;
      }
      const closing = server;
      server = undefined;
      await new Promise<void>((resolve) => closing?.close(() => resolve()));
    },
  };
  await faulty.listen(true);
  return faulty;
}
