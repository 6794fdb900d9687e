import pg from 'pg';
import type { Logger } from '../log.ts';
import { startLoop, type Worker } from '../worker.ts';
import { CHANNEL_PREFIX } from './append.ts';

/**
 * Calls `onCommit` after every commit that appended events, and once whenever the connection is
 * new, because what was said meanwhile is lost. Has a connection of its own, opened again as needed.
 */
export function listenForCommits(o: {
  pool: pg.Pool;
  logger: Logger;
  onCommit: () => void;
}): Worker {
  return startLoop({
    name: 'listen for commits',
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
        client.on('notification', o.onCommit);
        const { rows } = await client.query<{ schema: string }>(
          'select current_schema() as schema',
        );
        await client.query(
          `listen ${pg.escapeIdentifier(`${CHANNEL_PREFIX}${rows[0]?.schema ?? ''}`)}`,
        );
        o.onCommit();
        await ended;
      } finally {
        // The loop's signal outlives many connections: it must not hold on to those that ended.
        done.abort();
        await client.end().catch(() => {});
      }
      return 'again';
    },
  });
}
