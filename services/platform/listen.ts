import pg from 'pg';
import type { Logger } from './log.ts';
import { within } from './within.ts';
import { startLoop, type Worker } from './worker.ts';

/** A server that hangs does not answer a farewell. Milliseconds. */
const FAREWELL_MS = 1_000;

export interface ListenOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  /** Channels are database-wide: the name heard is `<prefix><current schema>`. */
  readonly channelPrefix: string;
  /**
   * Called after each commit that notified, with what it said, and once with nothing whenever the
   * connection is new: notifications in between are lost.
   */
  readonly onNotify: (payload: string) => void;
}

/**
 * Listens to a channel of the service's own schema over a connection of its own, opened again as
 * needed. A notification only saves waiting: every listener also looks by itself from time to time,
 * for a connection that died without a word.
 */
export function listen(o: ListenOptions): Worker {
  return startLoop({
    name: `listen to ${o.channelPrefix}`,
    idleMs: 0,
    logger: o.logger,
    step: async (signal) => {
      const client = new pg.Client(o.pool.options);
      const done = new AbortController();
      const ended = new Promise<void>((resolve, reject) => {
        client.once('end', resolve);
        client.on('error', reject);
        signal.addEventListener('abort', () => resolve(), { signal: done.signal });
      });
      // It may fail before anybody waits for it.
      ended.catch(() => {});
      try {
        await client.connect();
        client.on('notification', ({ payload }) => o.onNotify(payload ?? ''));
        await listenOn(client, o.channelPrefix);
        o.onNotify('');
        await ended;
      } finally {
        // The loop's signal outlives many connections: it must not hold on to those that ended.
        done.abort();
        await within(FAREWELL_MS, client.end()).catch(() => {});
      }
      return 'again';
    },
  });
}

async function listenOn(client: pg.Client, prefix: string): Promise<void> {
  const { rows } = await client.query<{ schema: string }>('select current_schema() as schema');
  await client.query(`listen ${pg.escapeIdentifier(`${prefix}${rows[0]?.schema ?? ''}`)}`);
}
