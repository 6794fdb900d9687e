import type { Meter } from '@opentelemetry/api';
import type pg from 'pg';
import type { Logger } from './log.ts';
import { isRefusedByServer } from './outage.ts';

/** How often the log names the same cause. Milliseconds. */
const LOG_EVERY_MS = 30_000;

/** Counts and logs why the database refuses this process, for its operators. */
export interface DatabaseRefusals {
  /** For {@link createPool}: called with every error of the server. */
  note(error: pg.DatabaseError): void;
  measure(meter: Meter): void;
}

/**
 * Names the role and the SQLSTATE at the first refusal of a kind, and then at most every 30 s with how many
 * there were: an outage is a statement a request.
 *
 * @param databaseUrl whose role and database the log names; its password is not read.
 */
export function watchRefusals(logger: Logger, databaseUrl: string): DatabaseRefusals {
  const { username, pathname } = new URL(databaseUrl);
  const about = { role: decodeURIComponent(username), database: pathname.slice(1) };
  const counts = new Map<string, number>();
  const logged = new Map<string, { readonly atMs: number; readonly count: number }>();
  return {
    note(error) {
      if (!isRefusedByServer(error)) return;
      const sqlstate = error.code ?? '';
      const count = (counts.get(sqlstate) ?? 0) + 1;
      counts.set(sqlstate, count);
      const last = logged.get(sqlstate);
      const nowMs = performance.now();
      if (last && nowMs - last.atMs < LOG_EVERY_MS) return;
      logged.set(sqlstate, { atMs: nowMs, count });
      const refusals = count - (last?.count ?? 0);
      logger.error(
        { ...about, sqlstate, refusals, cause: error.message },
        'the database refuses this process; it goes on as soon as that is corrected',
      );
    },
    measure(meter) {
      meter
        .createObservableCounter('database.refusals', {
          description: 'Statements and logins that the database refused this process, by SQLSTATE',
        })
        .addCallback((result) => {
          for (const [sqlstate, count] of counts) result.observe(count, { sqlstate });
        });
    },
  };
}
