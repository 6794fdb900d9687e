import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { named, type Sql, sql } from '../../platform/postgres/sql.ts';
import { actorKindText } from '../../platform/values/actor.ts';

/** A new entry of a timeline. People read it. */
export interface NewTimelineEntry {
  readonly returnId: bigint;
  /** Kind of the entry, such as `return.submitted`, `note`, `label.updated`. */
  readonly kind: string;
  /** A sentence for people. It has no e-mail address. */
  readonly text: string;
  /** The name of the author that is shown; absent for the name of the actor. */
  readonly author?: string;
  readonly facts?: Readonly<Record<string, string>>;
  /** The actor of this entry; absent when it is the actor of {@link addTimeline}. */
  readonly actor?: Actor;
}

/**
 * Writes entries into timelines inside the caller's transaction, in one statement.
 *
 * @returns the ids of the entries, in their order.
 */
export async function addTimeline(
  tx: Queryable,
  by: { readonly shopId: bigint; readonly actor: Actor },
  entries: readonly NewTimelineEntry[],
): Promise<bigint[]> {
  if (entries.length === 0) return [];
  const added = await tx.query<{ id: bigint }>(timelineStatement(by, entries));
  return added.rows.map((row) => row.id);
}

/** The statement that writes entries, at least one. */
export function timelineStatement(
  by: { readonly shopId: bigint; readonly actor: Actor },
  entries: readonly NewTimelineEntry[],
) {
  return named('add-timeline', insertTimeline(by, entries));
}

/** SQL: the end of a statement. It adds those of the timeline entries `e` for which the condition is true. */
export function insertTimeline(
  by: { readonly shopId: bigint; readonly actor: Actor },
  entries: readonly NewTimelineEntry[],
  condition = sql`true`,
): Sql {
  return sql`
insert into timeline (shop_id, return_id, kind, text, author, facts, actor_kind, actor_id, actor_name, actor_through)
select ${by.shopId}::bigint, e.return_id, e.kind, e.text, e.author, e.facts, e.actor_kind, e.actor_id, e.actor_name,
       e.actor_through
  from rows from (jsonb_to_recordset(${timelineRows(by.actor, entries)}::jsonb) as (return_id bigint, kind text, text text,
         author text, facts jsonb, actor_kind text, actor_id text, actor_name text, actor_through text))
       with ordinality as e (return_id, kind, text, author, facts, actor_kind, actor_id, actor_name, actor_through, n)
 where ${condition}
 order by e.n
returning id`;
}

/** Returns entries as one JSON text. */
function timelineRows(actor: Actor, entries: readonly NewTimelineEntry[]): string {
  const rows = entries.map((entry) => {
    const by = entry.actor ?? actor;
    return {
      return_id: entry.returnId.toString(),
      kind: entry.kind,
      text: entry.text,
      author: entry.author ?? by.name,
      facts: entry.facts ?? {},
      actor_kind: actorKindText.toText(by.kind),
      actor_id: by.id,
      actor_name: by.name,
      actor_through: by.through,
    };
  });
  return JSON.stringify(rows);
}
