import type { Queryable } from '../../platform/postgres.ts';

/** A day of a shop. */
export interface ShopDay {
  readonly shopId: bigint;
  /** UTC day, as YYYY-MM-DD. */
  readonly day: string;
}

/**
 * How far the search for the effects of this service has come, and its results up to there. The search updates it after
 * each effect, so that it is right even when the provider then fails.
 */
export interface Progress {
  /** Return and kind of the last effect, in the order of the search; `0` and empty before the first one. */
  returnId: bigint;
  kind: string;
  /** Whether the provider listed its effects. */
  listed: boolean;
  /** Number of effects that were searched for, and of differences among them. */
  searched: number;
  differences: number;
}

/** A part of a comparison that takes long. */
export interface Part {
  readonly signal: AbortSignal;
  /** Where the search for this service's effects continues. The search updates it. */
  readonly progress: Progress;
  /** Time limit of the search. It compares at least one effect. Milliseconds. */
  readonly searchMs: number;
}

export function newProgress(): Progress {
  return { returnId: 0n, kind: '', listed: false, searched: 0, differences: 0 };
}

/** Records that a try begins. Returns the progress of earlier tries of the same day. */
export async function beginTry(db: Queryable, { shopId, day }: ShopDay): Promise<Progress> {
  const { rows } = await db.query<Progress & { readonly isSameDay: boolean }>(
    `insert into commerce_comparisons as last (shop_id, day) values ($1, $2::date)
     on conflict (shop_id) do update set tried_at = now()
     returning day = $2::date as "isSameDay", coalesce(return_id, 0) as "returnId", kind, listed, searched,
               differences`,
    [shopId, day],
  );
  const [last] = rows;
  if (!last?.isSameDay) return newProgress();
  const { isSameDay: _, ...progress } = last;
  return progress;
}

/** Stores the progress of a try. Position and results are one row, so that no difference is lost or counted twice. */
export async function saveProgress(
  db: Queryable,
  { shopId, day }: ShopDay,
  { returnId, kind, listed, searched, differences }: Progress,
): Promise<void> {
  await db.query(
    `update commerce_comparisons
        set day = $2::date, return_id = nullif($3::bigint, 0), kind = $4, listed = $5, searched = $6, differences = $7
      where shop_id = $1`,
    [shopId, day, returnId, kind, listed, searched, differences],
  );
}
