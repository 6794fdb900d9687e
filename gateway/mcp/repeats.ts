import { createHash } from 'node:crypto';
import type { Queryable } from '../../services/platform/postgres.ts';
import type { Answer } from './tool.ts';

/** One call that carries an idempotency key: whose, and what for. */
export interface KeyedCall {
  readonly shopId: bigint;
  readonly userId: bigint;
  readonly key: string;
  readonly tool: string;
  /** SHA-256 of what the arguments say, without the key. */
  readonly requestHash: Buffer;
}

/** What becomes of a keyed call. */
export type Claim =
  /**
   * It is this call's to do. `isResumed`: an earlier one began it, and its end is not known; it had the
   * same `callId`. `begunAt`: when the first of them began, by the clock of the database.
   */
  | {
      readonly kind: 'mine';
      readonly isResumed: boolean;
      readonly callId: string;
      readonly begunAt: Date;
    }
  | { readonly kind: 'done'; readonly answer: Answer }
  /** Or its end was lost: `endsInS` seconds from now nothing of it can be on its way any more. */
  | { readonly kind: 'running'; readonly endsInS: number }
  | { readonly kind: 'used-for-something-else' };

/**
 * Longer than any call of a tool takes, and than a service goes on with what its caller has given up
 * (20 s for a call, 30 s for a statement): what is older has died. Seconds.
 */
const RUNNING_S = 90;

/**
 * Claims a keyed call before it is done. Of two at once one gets it, on whichever replica.
 *
 * The claim is committed before anything is done and the answer is stored after it, so a process that
 * dies between leaves a claim without an answer. Once nothing of that call can be on its way any more, a
 * repeat takes it up, and has to find out whether the work was done.
 */
export async function claimCall(db: Queryable, call: KeyedCall): Promise<Claim> {
  const claimed = await db.query<{ isResumed: boolean; callId: string; begunAt: Date }>(
    `insert into tool_calls as t (shop_id, user_id, idempotency_key, tool, request_hash)
     values ($1, $2, $3, $4, $5)
     on conflict (shop_id, user_id, idempotency_key) do update set started_at = now()
       where t.answer is null and t.started_at < now() - interval '${RUNNING_S} s'
         and t.tool = excluded.tool and t.request_hash = excluded.request_hash
     returning xmax <> 0 as "isResumed", call_id as "callId", begun_at as "begunAt"`,
    [call.shopId, call.userId, call.key, call.tool, call.requestHash],
  );
  const [mine] = claimed.rows;
  if (mine) return { kind: 'mine', ...mine };
  const { rows } = await db.query<{ isSame: boolean; answer: Answer | null; endsInS: number }>(
    `select tool = $4 and request_hash = $5 as "isSame", answer,
            greatest(1, ceil(extract(epoch from
              started_at + interval '${RUNNING_S} s' - now())))::int as "endsInS"
       from tool_calls
      where shop_id = $1 and user_id = $2 and idempotency_key = $3`,
    [call.shopId, call.userId, call.key, call.tool, call.requestHash],
  );
  const [other] = rows;
  // Gone between the two statements: whoever had it was refused.
  if (!other) return { kind: 'running', endsInS: 1 };
  if (!other.isSame) return { kind: 'used-for-something-else' };
  return other.answer
    ? { kind: 'done', answer: other.answer }
    : { kind: 'running', endsInS: other.endsInS };
}

/** Stores what the call was told: every repeat is told the same. */
export async function finishCall(db: Queryable, call: KeyedCall, answer: Answer): Promise<void> {
  await db.query(
    `update tool_calls set answer = $4 where shop_id = $1 and user_id = $2 and idempotency_key = $3`,
    [call.shopId, call.userId, call.key, JSON.stringify(answer)],
  );
}

/** Gives the key back: nothing was done, now or before, and the call may be made again. */
export async function releaseCall(db: Queryable, call: KeyedCall): Promise<void> {
  await db.query(
    `delete from tool_calls
      where shop_id = $1 and user_id = $2 and idempotency_key = $3 and answer is null`,
    [call.shopId, call.userId, call.key],
  );
}

/**
 * Keeps the claim, since an earlier call may have done it, and has the next repeat take it up at once:
 * nothing of this call is on its way, or the service knows a repeat by its `callId`.
 */
export async function abandonCall(db: Queryable, call: KeyedCall): Promise<void> {
  await db.query(
    `update tool_calls set started_at = now() - interval '${2 * RUNNING_S} s'
      where shop_id = $1 and user_id = $2 and idempotency_key = $3 and answer is null`,
    [call.shopId, call.userId, call.key],
  );
}

/** Removes what is older than a day. Safe to run twice. */
export async function purgeCalls(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query(
    `delete from tool_calls where ctid in (
       select ctid from tool_calls where started_at < now() - interval '24 hours'
        order by started_at limit $1 for update skip locked)`,
    [PURGE_BATCH],
  );
  return rowCount === PURGE_BATCH;
}

/** Rows of one statement. */
const PURGE_BATCH = 1_000;

/**
 * Equal for input that says the same, in whatever order its names came; the key itself does not count.
 *
 * @param input as it was read: what was left out and what was null are alike in it.
 */
export function hashOfRequest(input: Readonly<Record<string, unknown>>): Buffer {
  const { idempotency_key: _, ...rest } = input;
  const text = JSON.stringify(rest, (_name, value: unknown) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
  return createHash('sha256').update(text).digest();
}
