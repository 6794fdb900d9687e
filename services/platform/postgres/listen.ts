import pg from 'pg';
import { within } from '../process/within.ts';
import { startLoop, type Worker } from '../process/worker.ts';
import type { Logger } from '../telemetry/log.ts';
import { DatabaseClient } from './database-client.ts';
import { onlyRow } from './only-row.ts';

/** Maximum time to close a connection to a server that may hang. Milliseconds. */
const CLOSE_TIMEOUT_MS = 1_000;

export interface ListenOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  /**
   * Prefix of the channel's name, which is `<prefix><current schema>`. The schema is in it because a channel belongs to
   * the whole database.
   */
  readonly channelPrefix: string;
  /**
   * Called with the payload of each notification. Also called with an empty text after each new connection, because
   * notifications before it may be lost.
   */
  readonly onNotify: (payload: string) => void;
}

/**
 * Listens to a channel of the service's own schema over its own connection. Reopens the connection when it is lost. A
 * notification only saves time: every user of this function also polls, because a connection may fail without an error.
 */
export function listen(o: ListenOptions): Worker {
  return startLoop({
    name: `listen to ${o.channelPrefix}`,
    idleMs: 0,
    logger: o.logger,
    step: async (signal) => {
      const client = new DatabaseClient(o.pool.options);
      const done = new AbortController();
      const ended = new Promise<void>((resolve, reject) => {
        client.once('end', resolve);
        client.on('error', reject);
        signal.addEventListener('abort', () => resolve(), { signal: done.signal });
      });
      // The promise may reject before the code below awaits it. Without this handler, the rejection would end the
      // process.
      ended.catch(() => {});
      try {
        await client.connect();
        client.on('notification', ({ payload }) => o.onNotify(payload ?? ''));
        await listenOn(client, o.channelPrefix);
        o.onNotify('');
        await ended;
      } finally {
        // Remove the listener of this connection. The signal of the loop lives longer than many connections.
        done.abort();
        await within(CLOSE_TIMEOUT_MS, client.end()).catch(() => {});
      }
      return 'again';
    },
  });
}

async function listenOn(client: pg.Client, prefix: string): Promise<void> {
  const result = await client.query<{ schema: string }>('select current_schema() as schema');
  await client.query(`listen ${pg.escapeIdentifier(`${prefix}${onlyRow(result).schema}`)}`);
}
