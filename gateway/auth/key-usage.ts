import type { Logger } from '../../services/platform/log.ts';
import type { Queryable } from '../../services/platform/postgres.ts';
import { startLoop, type Worker } from '../../services/platform/worker.ts';

/** Precision of `last_used_at`, and the interval at which it is written. Milliseconds. */
const EVERY_MS = 60_000;

export interface Usage extends Worker {
  /** Records that the key or grant was used. The loop writes it later, together with others. */
  used(id: string): void;
}

/** Writes `last_used_at` of API keys in the background: one statement per minute for all keys. */
export function startKeyUsage(db: Queryable, logger: Logger): Usage {
  return startUsage(db, logger, {
    name: 'key-usage',
    statement: `update api_keys set last_used_at = now()
       where key_id = any($1) and (last_used_at is null or last_used_at < now() - interval '1 minute')`,
  });
}

/** Does the same as {@link startKeyUsage}, for the grants of assistants. */
export function startGrantUsage(db: Queryable, logger: Logger): Usage {
  return startUsage(db, logger, {
    name: 'grant-usage',
    statement: `update oauth_grants set last_used_at = now()
       where id = any($1) and (last_used_at is null or last_used_at < now() - interval '1 minute')`,
  });
}

function startUsage(
  db: Queryable,
  logger: Logger,
  { name, statement }: { readonly name: string; readonly statement: string },
): Usage {
  let waiting = new Set<string>();
  const flush = async (): Promise<void> => {
    if (waiting.size === 0) return;
    const ids = [...waiting];
    waiting = new Set();
    await db.query(statement, [ids]);
  };
  const loop = startLoop({
    name,
    idleMs: EVERY_MS,
    logger,
    step: async () => {
      await flush();
      return 'idle';
    },
  });
  return {
    used: (id) => waiting.add(id),
    async stop() {
      await loop.stop();
      // Losing a minute of `last_used_at` must not make a shutdown fail.
      await flush().catch((error: unknown) =>
        logger.warn({ err: error, name }, 'usage not written'),
      );
    },
  };
}
