import type { Meter } from '@opentelemetry/api';
import type pg from 'pg';
import type { Logger } from './log.ts';
import { isRejectedByServer } from './outage.ts';

/** How often the same cause is logged. Milliseconds. */
const LOG_EVERY_MS = 30_000;

/** Counts and logs why the database rejects logins or statements of this process, for operators. */
export interface DatabaseRejections {
  /** For {@link createPool}: called with every error from the server. */
  note(error: pg.DatabaseError): void;
  measure(meter: Meter): void;
}

/**
 * Logs the role and the SQLSTATE of the first rejection of each SQLSTATE. Later it logs the number of rejections at most
 * every 30 s, because in an outage every statement fails.
 *
 * @param databaseUrl contains the role and the database for the log. Its password is not read.
 */
export function watchRejections(logger: Logger, databaseUrl: string): DatabaseRejections {
  const { username, pathname } = new URL(databaseUrl);
  const about = { role: decodeURIComponent(username), database: pathname.slice(1) };
  const counts = new Map<string, number>();
  const logged = new Map<string, { readonly atMs: number; readonly count: number }>();
  return {
    note(error) {
      if (!isRejectedByServer(error)) return;
      const sqlstate = error.code ?? '';
      const count = (counts.get(sqlstate) ?? 0) + 1;
      counts.set(sqlstate, count);
      const last = logged.get(sqlstate);
      const nowMs = performance.now();
      if (last && nowMs - last.atMs < LOG_EVERY_MS) return;
      logged.set(sqlstate, { atMs: nowMs, count });
      const rejections = count - (last?.count ?? 0);
      logger.error(
        { ...about, sqlstate, rejections, cause: error.message },
        'database rejected login or statement, retrying',
      );
    },
    measure(meter) {
      meter
        .createObservableCounter('database.refusals', {
          description:
            'Logins and statements of this process that the database rejected, by SQLSTATE',
        })
        .addCallback((result) => {
          for (const [sqlstate, count] of counts) result.observe(count, { sqlstate });
        });
    },
  };
}
