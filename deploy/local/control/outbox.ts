import pg from 'pg';
import { SCHEMAS } from '../../../services/platform/schemas.ts';

/** The number of unpublished events, by service. Reads as the migrator. */
export async function outboxDepths(pool: pg.Pool): Promise<Record<string, number>> {
  const publishers = SCHEMAS.filter(({ capabilities }) => capabilities.includes('outbox'));
  const counts = publishers.map(
    ({ name }) =>
      `select ${pg.escapeLiteral(name)} as name, count(*)::int as waiting from ${pg.escapeIdentifier(name)}.outbox`,
  );
  const { rows } = await pool.query<{ name: string; waiting: number }>(counts.join(' union all '));
  return Object.fromEntries(rows.map(({ name, waiting }) => [name, waiting]));
}
