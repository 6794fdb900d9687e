import pg from 'pg';
import { metricOf } from '../system/metrics.ts';
import type { System } from '../system/system.ts';

/** A right of a service's role that a row revokes. */
export interface Grant {
  readonly right: 'select' | 'insert';
  readonly table: string;
  readonly role: string;
}

export async function revoke(admin: pg.Client, grants: readonly Grant[]): Promise<void> {
  await admin.query(
    grants.map(({ right, table, role }) => `revoke ${right} on ${table} from ${role};`).join(''),
  );
}

export async function grant(admin: pg.Client, grants: readonly Grant[]): Promise<void> {
  await admin.query(
    grants.map(({ right, table, role }) => `grant ${right} on ${table} to ${role};`).join(''),
  );
}

/** Runs `work` as the superuser, and closes the connection. */
export async function asAdmin<T>(
  { database }: System,
  work: (admin: pg.Client) => Promise<T>,
): Promise<T> {
  const admin = new pg.Client({ connectionString: await database.adminUrl() });
  await admin.connect();
  return work(admin).finally(() => admin.end());
}

/** How often the database has rejected statements of these services' processes. */
export async function refusalsSeen(
  system: System,
  services: readonly Parameters<typeof metricOf>[1][],
): Promise<number> {
  const all = services.map((name) => metricOf(system, name, 'database_refusals_total'));
  return (await Promise.all(all)).reduce((sum, count) => sum + count, 0);
}

/** Problems that an operator would have to handle. */
export async function leftBehind({ pool }: System, shopId: number): Promise<string[]> {
  const { rows } = await pool.query<{ poison: bigint; failed: bigint }>(
    `select (select count(*) from webhooks.poison_records) + (select count(*) from returns.poison_records) as poison,
            (select count(*) from returns.processing_jobs where shop_id = $1 and state = 'failed') as failed`,
    [shopId],
  );
  const { poison = 0n, failed = 0n } = rows[0] ?? {};
  return [
    ...(poison > 0n ? [`${poison} poison records were stored`] : []),
    ...(failed > 0n ? [`${failed} jobs failed`] : []),
  ];
}
