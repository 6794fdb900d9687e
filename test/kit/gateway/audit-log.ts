import type pg from 'pg';
import { until } from '../until.ts';

/** A row of the audit log. */
export interface AuditRow {
  readonly shop_id: bigint;
  readonly actor_kind: string;
  readonly actor_id: string;
  readonly actor_name: string;
  readonly source: string | null;
  readonly request_id: string | null;
  readonly action: string;
  readonly subject: string;
  readonly detail: {
    readonly call?: string;
    readonly phase?: string;
    readonly status?: number;
    readonly changes?: readonly object[];
    readonly [more: string]: unknown;
  };
}

/**
 * The entries that match all of these columns, oldest first, once no call that matches is still open. A call is open
 * before its response, so no entry is missed.
 */
export async function auditLogOf(
  pool: pg.Pool,
  columns: Readonly<Record<string, unknown>>,
): Promise<AuditRow[]> {
  const condition = Object.keys(columns)
    .map((name, nth) => `${name} = $${nth + 1}`)
    .join(' and ');
  const values = Object.values(columns);
  await until(async () => {
    const { rowCount } = await pool.query(`select from open_calls where ${condition}`, values);
    return rowCount === 0;
  });
  const { rows } = await pool.query<AuditRow>(
    `select * from audit_log where ${condition} order by at, id`,
    values,
  );
  return rows;
}
