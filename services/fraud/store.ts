import { actorKindText } from '../platform/actor.ts';
import type { Queryable } from '../platform/postgres.ts';
import type { NewReport, Report } from './report.ts';

interface Row {
  readonly id: bigint;
  readonly return_id: bigint;
  readonly category: string | null;
  readonly comment: string | null;
  readonly actor_kind: string;
  readonly actor_id: string;
  readonly actor_name: string;
  readonly created_at: Date;
}

const COLUMNS = 'id, return_id, category, comment, actor_kind, actor_id, actor_name, created_at';

/** Stores a report. The constraint `reports_one_per_return` rejects a second one for the same return. */
export async function insertReport(tx: Queryable, report: NewReport): Promise<Report> {
  const { rows } = await tx.query<Row>(
    `insert into reports (shop_id, return_id, category, comment, actor_kind, actor_id, actor_name)
     values ($1, $2, $3, $4, $5, $6, $7)
     returning ${COLUMNS}`,
    [
      report.shopId,
      report.returnId,
      report.category ?? null,
      report.comment ?? null,
      actorKindText.toText(report.actor.kind),
      report.actor.id,
      report.actor.name,
    ],
  );
  const [row] = rows;
  if (!row) throw new Error('the statement returned no row');
  return toReport(row);
}

/** The report of a return; undefined when there is none. */
export async function findReport(
  db: Queryable,
  shopId: bigint,
  returnId: bigint,
): Promise<Report | undefined> {
  const { rows } = await db.query<Row>(
    `select ${COLUMNS} from reports where shop_id = $1 and return_id = $2`,
    [shopId, returnId],
  );
  return rows[0] && toReport(rows[0]);
}

function toReport(row: Row): Report {
  return {
    id: row.id,
    returnId: row.return_id,
    category: row.category ?? undefined,
    comment: row.comment ?? undefined,
    createdAt: row.created_at,
    reportedBy: {
      kind: actorKindText.fromText(row.actor_kind),
      id: row.actor_id,
      name: row.actor_name,
    },
  };
}
