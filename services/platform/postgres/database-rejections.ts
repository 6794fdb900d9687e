import type { Meter } from '@opentelemetry/api';
import type pg from 'pg';
import type { Logger } from '../telemetry/log.ts';
import { isRejectedByServer } from './outage.ts';

/** Minimum time between two log lines about the same cause. Milliseconds. */
const LOG_EVERY_MS = 30_000;

/** Counts and logs for operators why the database rejects logins or statements of this process. */
export interface DatabaseRejections {
  /** For {@link createPool}: called with every error from the server. */
  note(error: pg.DatabaseError): void;
  measure(meter: Meter): void;
}

/**
 * Logs the role and the SQLSTATE when a SQLSTATE occurs for the first time. Later it logs the number of such
 * rejections, at most every 30 s, because in an outage every statement fails.
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
