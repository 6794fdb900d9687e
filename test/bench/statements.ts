import type pg from 'pg';

/** The work of PostgreSQL for one statement, over all its calls. */
export interface Statement {
  readonly role: string;
  readonly text: string;
  readonly calls: number;
  readonly rows: number;
  /** Time in the server, planning included. Milliseconds. */
  readonly ms: number;
  /** The part of the time for planning. */
  readonly planMs: number;
  /** Number of pages read, from memory or disk. */
  readonly buffers: number;
  readonly walBytes: number;
}

/** Resets the counters. */
export async function resetStatements(admin: pg.Client): Promise<void> {
  await admin.query('select pg_stat_statements_reset()');
}

/** The statements of the services' roles since the last reset, the longest first. */
export async function statementsSince(admin: pg.Client): Promise<Statement[]> {
  const { rows } = await admin.query<Statement>(
    `select r.rolname as role, s.query as text, s.calls::float8 as calls, s.rows::float8 as rows,
            s.total_exec_time + s.total_plan_time as ms, s.total_plan_time as "planMs",
            (s.shared_blks_hit + s.shared_blks_read)::float8 as buffers,
            s.wal_bytes::float8 as "walBytes"
     from pg_stat_statements s join pg_roles r on r.oid = s.userid
     where starts_with(r.rolname, 'rms_') and r.rolname <> 'rms_migrator' and s.toplevel
     order by ms desc`,
  );
  return rows;
}

export interface StatementSums {
  readonly calls: number;
  readonly buffers: number;
  readonly walBytes: number;
}

export function sumsOf(statements: readonly Statement[]): StatementSums {
  return {
    calls: sum(statements, ({ calls }) => calls),
    buffers: sum(statements, ({ buffers }) => buffers),
    walBytes: sum(statements, ({ walBytes }) => walBytes),
  };
}

/** Number of statements in the output. */
const SHOWN = 12;

/** The most expensive statements as lines: share of the time, calls, rows and pages per call. */
export function mostExpensive(statements: readonly Statement[]): string[] {
  const all = sum(statements, ({ ms }) => ms);
  return statements.slice(0, SHOWN).map((one) => {
    const share = `${((100 * one.ms) / all).toFixed(1)} %`.padStart(7);
    const planning = one.planMs > 0 ? ` (${(one.planMs / one.calls).toFixed(3)} to plan)` : '';
    const calls = `${one.calls} × ${(one.ms / one.calls).toFixed(3)} ms${planning}`;
    const work = `${(one.rows / one.calls).toFixed(1)} rows, ${(one.buffers / one.calls).toFixed(1)} pages`;
    return `${share}  ${calls}, ${work}  ${one.role}: ${oneLine(one.text)}`;
  });
}

function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > 110 ? `${line.slice(0, 109)}…` : line;
}

function sum(statements: readonly Statement[], of: (one: Statement) => number): number {
  return statements.reduce((total, one) => total + of(one), 0);
}
