import { once } from 'node:events';
import { connect, createServer } from 'node:net';

export interface LossyDatabase {
  /** The same database, through a connection that can lose a response. */
  readonly url: string;
  /** The next commit succeeds, but its connection breaks before the response arrives. */
  loseNextCommit(): void;
  /** Number of commits whose response was lost. */
  lost(): number;
  close(): Promise<void>;
}

/** A commit in PostgreSQL's protocol, also at the end of a group of statements. */
const COMMIT = Buffer.from('commit\0');

/** A proxy for a database that can lose the response to a commit. The client then cannot know whether it took place. */
export async function lossyDatabase(databaseUrl: string): Promise<LossyDatabase> {
  const target = new URL(databaseUrl);
  let isArmed = false;
  let lost = 0;
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    let isLosing = false;
    client.on('data', (data) => {
      if (isArmed && data.includes(COMMIT)) {
        isArmed = false;
        isLosing = true;
      }
      upstream.write(data);
    });
    upstream.on('data', (data) => {
      if (!isLosing) return client.write(data);
      lost += 1;
      upstream.destroy();
      client.resetAndDestroy();
    });
    client.on('error', () => upstream.destroy());
    upstream.on('error', () => client.destroy());
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = new URL(databaseUrl);
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
  url.port = String(address.port);
  return {
    url: url.href,
    loseNextCommit() {
      isArmed = true;
    },
    lost: () => lost,
    async close() {
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  };
}
