import type pg from 'pg';
import { StatementGroup } from '../../../services/platform/postgres/statement-group.ts';

/** What was sent to PostgreSQL. */
export interface Sent {
  /** Texts of the statements, in order. Includes each statement of a group, except its begin and commit. */
  readonly statements: string[];
  /** Number of round trips. */
  roundTrips: number;
}

/**
 * Counts the statements of a pool's connections. Notifications after a commit are not counted, because their time
 * varies. Must be called before the pool connects.
 */
export function countStatements(
  pool: pg.Pool,
  sent: Sent = { statements: [], roundTrips: 0 },
): Sent {
  pool.on('connect', (client) => {
    const query = client.query;
    const counted = (...args: unknown[]) => {
      const texts = textsOf(args[0]);
      if (!texts.some((text) => text.startsWith('select pg_notify('))) {
        sent.roundTrips += 1;
        sent.statements.push(...texts);
      }
      return Reflect.apply(query, client, args);
    };
    Object.assign(client, { query: counted });
  });
  return sent;
}

function textsOf(query: unknown): string[] {
  if (query instanceof StatementGroup) {
    const texts = query.members.map((one) => one.query.text);
    const statements = texts.filter((text) => text !== 'begin' && text !== 'commit');
    return statements.length > 0 ? statements : texts;
  }
  if (typeof query === 'string') return [query];
  return [query instanceof Object && 'text' in query ? String(query.text) : ''];
}
