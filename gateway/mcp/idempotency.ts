import { createHash } from 'node:crypto';
import type { Queryable } from '../../services/platform/postgres.ts';
import type { ToolOutput } from './tool.ts';

export interface KeyedCall {
  readonly shopId: bigint;
  readonly userId: bigint;
  readonly key: string;
  readonly tool: string;
  /** SHA-256 of the arguments without the key. */
  readonly requestHash: Buffer;
}

/** The result of {@link claimCall}. */
export type Claim =
  /** This call must do the work. `isRepeat`: an earlier call with the same `callId` began it. */
  | { readonly kind: 'mine'; readonly isRepeat: boolean; readonly callId: string }
  | { readonly kind: 'done'; readonly answer: ToolOutput }
  /** Another call is running, or its process ended. After `endsInS` seconds it cannot be running any more. */
  | { readonly kind: 'running'; readonly endsInS: number }
  | { readonly kind: 'used-for-something-else' };

/**
 * A call without an answer after this time is dead. It is longer than any tool call, including the time for which
 * a service continues after its caller has given up (20 s for a call, 30 s for a statement). Seconds.
 */
const RUNNING_S = 90;

/**
 * Claims an idempotency key before the work begins. Of two concurrent calls, also on different replicas, one gets it.
 *
 * The claim is committed before the work and the answer is stored after it, so a process that dies in between leaves
 * a claim without an answer. When that call cannot be running any more, a repeat takes over the claim and sends the
 * same `callId`, by which the service knows what was done.
 */
export async function claimCall(db: Queryable, call: KeyedCall): Promise<Claim> {
  const claimed = await db.query<{ isRepeat: boolean; callId: string }>(
    `insert into tool_calls as t (shop_id, user_id, idempotency_key, tool, request_hash)
     values ($1, $2, $3, $4, $5)
     on conflict (shop_id, user_id, idempotency_key) do update set started_at = now()
       where t.answer is null and t.started_at < now() - interval '${RUNNING_S} s'
         and t.tool = excluded.tool and t.request_hash = excluded.request_hash
     returning xmax <> 0 as "isRepeat", call_id as "callId"`,
    [call.shopId, call.userId, call.key, call.tool, call.requestHash],
  );
  const [mine] = claimed.rows;
  if (mine) return { kind: 'mine', ...mine };
  const { rows } = await db.query<{ isSame: boolean; answer: ToolOutput | null; endsInS: number }>(
    `select tool = $4 and request_hash = $5 as "isSame", answer,
            greatest(1, ceil(extract(epoch from
              started_at + interval '${RUNNING_S} s' - now())))::int as "endsInS"
       from tool_calls
      where shop_id = $1 and user_id = $2 and idempotency_key = $3`,
    [call.shopId, call.userId, call.key, call.tool, call.requestHash],
  );
  const [other] = rows;
  // The row was deleted between the two statements: the other call was refused and released the key.
  if (!other) return { kind: 'running', endsInS: 1 };
  if (!other.isSame) return { kind: 'used-for-something-else' };
  return other.answer
    ? { kind: 'done', answer: other.answer }
    : { kind: 'running', endsInS: other.endsInS };
}

/** Stores the answer of the call; every repeat gets the same answer. */
export async function finishCall(
  db: Queryable,
  call: KeyedCall,
  answer: ToolOutput,
): Promise<void> {
  await db.query(
    `update tool_calls set answer = $4 where shop_id = $1 and user_id = $2 and idempotency_key = $3`,
    [call.shopId, call.userId, call.key, JSON.stringify(answer)],
  );
}

/** Releases the key: nothing was done, now or before, so the call may be made again. */
export async function releaseCall(db: Queryable, call: KeyedCall): Promise<void> {
  await db.query(
    `delete from tool_calls
      where shop_id = $1 and user_id = $2 and idempotency_key = $3 and answer is null`,
    [call.shopId, call.userId, call.key],
  );
}

/** Keeps the claim, because the work may have been done, and lets the next repeat take it over without waiting. */
export async function abandonCall(db: Queryable, call: KeyedCall): Promise<void> {
  await db.query(
    `update tool_calls set started_at = now() - interval '${2 * RUNNING_S} s'
      where shop_id = $1 and user_id = $2 and idempotency_key = $3 and answer is null`,
    [call.shopId, call.userId, call.key],
  );
}

/** Deletes a batch of calls that are older than a day. Returns whether there may be more. Safe to run twice. */
export async function purgeCalls(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query(
    `delete from tool_calls where ctid in (
       select ctid from tool_calls where started_at < now() - interval '24 hours'
        order by started_at limit $1 for update skip locked)`,
    [PURGE_BATCH],
  );
  return rowCount === PURGE_BATCH;
}

/** Maximum number of rows per statement. */
const PURGE_BATCH = 1_000;

/**
 * The hash of a request. It does not depend on the order of names or on the idempotency key.
 *
 * @param input the parsed arguments, in which null and absent values are the same.
 */
export function hashOfRequest(input: Readonly<Record<string, unknown>>): Buffer {
  const { idempotency_key: _, ...rest } = input;
  const text = JSON.stringify(rest, (_name, value: unknown) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
  return createHash('sha256').update(text).digest();
}
