import type pg from 'pg';
import { type ProcessTime, treeOf } from './work.ts';

/** Children of the server that exited before the end of the slice. */
export const ENDED = 'ended processes';
const POSTMASTER = 'postmaster';
/** Processes without an application's name, or without a row in `pg_stat_activity`. */
const UNNAMED = 'unnamed';

/**
 * CPU-seconds of PostgreSQL between two readings, by kind of process. They add up to the CPU time of the whole server:
 * the kernel adds the time of exited children to their parent. That time is one kind, without the part that was already
 * counted for them.
 *
 * @param root the server's first process.
 * @param kinds of the processes, by pid.
 */
export function cpuByKind(
  root: number,
  before: readonly ProcessTime[],
  after: readonly ProcessTime[],
  kinds: ReadonlyMap<number, string>,
): Map<string, number> {
  const known = new Map(treeOf(root, before).map((one) => [nameOf(one), one]));
  const sums = new Map<string, number>();
  const add = (kind: string, seconds: number) => sums.set(kind, (sums.get(kind) ?? 0) + seconds);
  for (const one of treeOf(root, after)) {
    const earlier = known.get(nameOf(one));
    known.delete(nameOf(one));
    const kind = one.pid === root ? POSTMASTER : (kinds.get(one.pid) ?? UNNAMED);
    add(kind, one.own - (earlier?.own ?? 0));
    add(ENDED, one.ended - (earlier?.ended ?? 0));
  }
  for (const gone of known.values()) add(ENDED, -gone.own - gone.ended);
  return sums;
}

/** The kinds of the server's processes. A backend's kind is the name of its application. */
export async function kindsOf(admin: pg.Client): Promise<Map<number, string>> {
  const { rows } = await admin.query<{ pid: number; kind: string }>(
    `select pid, case when backend_type = 'client backend' then application_name else backend_type end as kind
     from pg_stat_activity`,
  );
  return new Map(rows.map(({ pid, kind }) => [pid, kind || UNNAMED]));
}

const nameOf = ({ pid, began }: ProcessTime): string => `${pid} ${began}`;
