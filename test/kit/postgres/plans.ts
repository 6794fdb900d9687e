import pg from 'pg';
import { createPool } from '../../../services/platform/postgres/postgres.ts';
import { StatementGroup } from '../../../services/platform/postgres/statement-group.ts';

/** What PostgreSQL reads for a statement. */
export interface Cost {
  /** Pages of 8 KiB. */
  readonly buffers: number;
  /** Tables of which it read more than {@link SMALL} rows without an index. */
  readonly scans: readonly string[];
}

/** A scan of fewer rows costs no more than an index. */
const SMALL = 200;

/** Runs the statement, and returns what PostgreSQL read for it. */
export async function costOf(
  db: Pick<pg.ClientBase, 'query'>,
  { text, values = [] }: pg.QueryConfig,
): Promise<Cost> {
  const { rows } = await db.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
    `explain (analyze, buffers, format json) ${text}`,
    values,
  );
  const plan = rows[0]?.['QUERY PLAN'][0].Plan;
  if (!plan) throw new Error('no plan');
  return {
    buffers: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'],
    scans: scansIn(plan),
  };
}

interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly Plan[];
}

function scansIn(plan: Plan): string[] {
  const read = plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0);
  const isScan = plan['Node Type'] === 'Seq Scan' && read > SMALL;
  const own = isScan ? [plan['Relation Name'] ?? ''] : [];
  return [...own, ...(plan.Plans ?? []).flatMap(scansIn)];
}

/** Collects statistics and removes what is dead, as autovacuum does. A service may not do it. @param url the migrator's. */
export async function vacuum(url: string): Promise<void> {
  const migrator = new pg.Client({ connectionString: url });
  await migrator.connect();
  try {
    await migrator.query('vacuum analyze');
  } finally {
    await migrator.end();
  }
}

/**
 * Connects to a database, and records what is read there.
 *
 * @returns `taken`: the statements since its last call, without those that begin or end a transaction.
 */
export function recordingPool(url: string): {
  readonly pool: pg.Pool;
  taken(): pg.QueryConfig[];
} {
  const pool = createPool(url, { max: 2 });
  const statements: pg.QueryConfig[] = [];
  pool.on('connect', (client) => {
    const { query } = client;
    const recorded = (...args: unknown[]) => {
      const [first, values] = args;
      const text = typeof first === 'string' ? first : undefined;
      if (text !== undefined) statements.push({ text, ...(Array.isArray(values) && { values }) });
      else if (first instanceof StatementGroup) statements.push(...membersOf(first));
      else if (isConfig(first)) statements.push(first);
      return Reflect.apply(query, client, args);
    };
    Object.assign(client, { query: recorded });
  });
  return {
    pool,
    taken: () => statements.splice(0).filter(({ text }) => /^\s*(?:select|with)\b/i.test(text)),
  };
}

function isConfig(value: unknown): value is pg.QueryConfig {
  return value instanceof Object && 'text' in value && typeof value.text === 'string';
}

function membersOf({ members }: StatementGroup): pg.QueryConfig[] {
  return members.map(({ query }) => {
    const { name, text, values } = query as typeof query & pg.QueryConfig;
    return { text, ...(name !== undefined && { name }), ...(values && { values }) };
  });
}
