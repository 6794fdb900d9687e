import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { actorKindText } from './texts.ts';

/** One thing that happened to a return, for people to read. */
export interface NewTimelineEntry {
  readonly returnId: bigint;
  /** Such as `return.submitted`, `note`, `label.updated`. */
  readonly kind: string;
  /** In words. Never an e-mail address. */
  readonly text: string;
  /** Name shown; the actor's own when absent. */
  readonly author?: string;
  readonly facts?: Readonly<Record<string, string>>;
  /** On whose behalf, where another than the caller of {@link addTimeline}. */
  readonly actor?: Actor;
}

/**
 * Writes entries into timelines inside the caller's transaction, in one statement. Returns their
 * ids, in the order given.
 */
export async function addTimeline(
  tx: Queryable,
  by: { readonly shopId: bigint; readonly actor: Actor },
  entries: readonly NewTimelineEntry[],
): Promise<bigint[]> {
  if (entries.length === 0) return [];
  const rows = entries.map((entry) => {
    const actor = entry.actor ?? by.actor;
    return {
      return_id: entry.returnId.toString(),
      kind: entry.kind,
      text: entry.text,
      author: entry.author ?? actor.name,
      facts: entry.facts ?? {},
      actor_kind: actorKindText.toText(actor.kind),
      actor_id: actor.id,
      actor_name: actor.name,
    };
  });
  const added = await tx.query<{ id: bigint }>(
    `insert into timeline (shop_id, return_id, kind, text, author, facts, actor_kind, actor_id, actor_name)
     select $1, e.return_id, e.kind, e.text, e.author, e.facts, e.actor_kind, e.actor_id, e.actor_name
       from rows from (jsonb_to_recordset($2::jsonb) as (return_id bigint, kind text, text text,
              author text, facts jsonb, actor_kind text, actor_id text, actor_name text))
            with ordinality as e (return_id, kind, text, author, facts, actor_kind, actor_id, actor_name, n)
      order by e.n
     returning id`,
    [by.shopId, JSON.stringify(rows)],
  );
  return added.rows.map((row) => row.id);
}
