import type pg from 'pg';
import { StatementGroup } from '../../../services/platform/statement-group.ts';

/** What was sent to PostgreSQL. */
export interface Sent {
  /** Texts, in order. Statements of a group are separate; a begin or commit that is sent with others is left out. */
  readonly statements: string[];
  /** How often something was sent and an answer waited for. */
  roundTrips: number;
}

/**
 * Counts the statements of a pool's connections, except notifications of commits, whose time varies. To be called
 * before the pool connects.
 */
export function countStatements(
  pool: pg.Pool,
  sent: Sent = { statements: [], roundTrips: 0 },
): Sent {
  pool.on('connect', (client) => {
    const query = client.query;
    const counted = (...given: unknown[]) => {
      const texts = textsOf(given[0]);
      if (!texts.some((text) => text.includes('pg_notify($1'))) {
        sent.roundTrips += 1;
        sent.statements.push(...texts);
      }
      return Reflect.apply(query, client, given);
    };
    Object.assign(client, { query: counted });
  });
  return sent;
}

function textsOf(query: unknown): string[] {
  if (query instanceof StatementGroup) {
    const texts = query.members.map((one) => one.query.text);
    const others = texts.filter((text) => text !== 'begin' && text !== 'commit');
    return others.length > 0 ? others : texts;
  }
  if (typeof query === 'string') return [query];
  return [query instanceof Object && 'text' in query ? String(query.text) : ''];
}
