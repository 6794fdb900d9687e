import { createHash } from 'node:crypto';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import type { ToolOutput } from './tool.ts';

export interface KeyedCall {
  readonly shopId: bigint;
  readonly userId: bigint;
  readonly key: string;
  readonly tool: string;
  /** SHA-256 of the arguments without the idempotency key. */
  readonly requestHash: Buffer;
}

/** The claim of a call on its idempotency key. */
export interface Claimed {
  /**
   * Id that the tool sends to the service, which recognizes work that is already done. A repeat that takes over the
   * claim sends the same id.
   */
  readonly callId: string;
  /** Changes when a repeat takes over the claim. Only the call with the newest token may change the stored claim. */
  readonly token: string;
}

/** The result of {@link claimCall}. */
export type Claim =
  /** This call must do the work. `isRepeat`: an earlier call with the same `callId` may already have done it. */
  | ({ readonly kind: 'claimed'; readonly isRepeat: boolean } & Claimed)
  /** An earlier call is complete. This is its stored output. */
  | { readonly kind: 'done'; readonly output: ToolOutput }
  /** An earlier call may still be running. After `endsInS` seconds it is certainly not running any more. */
  | { readonly kind: 'running'; readonly endsInS: number }
  /** The key belongs to another tool or other arguments. */
  | { readonly kind: 'other-request' };

/**
 * A call that has stored no output after this time is certainly not running any more. The time is longer than any tool
 * call (20 s) together with the work that a service may continue after the timeout of its caller (30 s for a statement).
 * Seconds.
 */
const RUNNING_S = 90;
/**
 * {@link abandonCall} moves the start of its claim this far into the past, so that a repeat can take it over. Seconds.
 */
const ABANDONED_S = 2 * RUNNING_S;

/**
 * Claims an idempotency key before the work begins. Of many concurrent calls on all replicas, one gets the claim.
 *
 * The claim is committed before the work, and the output is stored after it. A process that dies in between leaves a
 * claim without an output. When the call of that process has certainly ended, a repeat takes over the claim. It sends
 * the same `callId`, so that the service recognizes work that is already done.
 */
export async function claimCall(db: Queryable, call: KeyedCall): Promise<Claim> {
  const claimed = await db.query<Claimed & { isRepeat: boolean }>(
    `insert into tool_calls as t (shop_id, user_id, idempotency_key, tool, request_hash)
     values ($1, $2, $3, $4, $5)
     on conflict (shop_id, user_id, idempotency_key) do update set started_at = now()
       where t.answer is null and t.started_at < now() - interval '${RUNNING_S} s'
         and t.tool = excluded.tool and t.request_hash = excluded.request_hash
     returning xmax <> 0 as "isRepeat", call_id as "callId", started_at::text as token`,
    [call.shopId, call.userId, call.key, call.tool, call.requestHash],
  );
  const [claim] = claimed.rows;
  if (claim) return { kind: 'claimed', ...claim };
  const { rows } = await db.query<{ isSame: boolean; output: ToolOutput | null; endsInS: number }>(
    `select tool = $4 and request_hash = $5 as "isSame", answer as output,
            greatest(1, ceil(extract(epoch from
              started_at + interval '${RUNNING_S} s' - now())))::int as "endsInS"
       from tool_calls
      where shop_id = $1 and user_id = $2 and idempotency_key = $3`,
    [call.shopId, call.userId, call.key, call.tool, call.requestHash],
  );
  const [earlier] = rows;
  // The earlier call released the key between these two statements.
  if (!earlier) return { kind: 'running', endsInS: 1 };
  if (!earlier.isSame) return { kind: 'other-request' };
  return earlier.output
    ? { kind: 'done', output: earlier.output }
    : { kind: 'running', endsInS: earlier.endsInS };
}

/** Stores the output of the call. Every repeat gets the same output. */
export async function finishCall(
  db: Queryable,
  call: KeyedCall & Pick<Claimed, 'token'>,
  output: ToolOutput,
): Promise<void> {
  await db.query(
    `update tool_calls set answer = $5
      where shop_id = $1 and user_id = $2 and idempotency_key = $3 and started_at = $4`,
    [call.shopId, call.userId, call.key, call.token, JSON.stringify(output)],
  );
}

/** Releases the key of a call that changed nothing, so that the key can be used again. */
export async function releaseCall(
  db: Queryable,
  call: KeyedCall & Pick<Claimed, 'token'>,
): Promise<void> {
  await db.query(
    `delete from tool_calls
      where shop_id = $1 and user_id = $2 and idempotency_key = $3 and started_at = $4 and answer is null`,
    [call.shopId, call.userId, call.key, call.token],
  );
}

/** Keeps the claim of a call whose work may be done, so that the next repeat can take it over immediately. */
export async function abandonCall(
  db: Queryable,
  call: KeyedCall & Pick<Claimed, 'token'>,
): Promise<void> {
  await db.query(
    `update tool_calls set started_at = now() - interval '${ABANDONED_S} s'
      where shop_id = $1 and user_id = $2 and idempotency_key = $3 and started_at = $4 and answer is null`,
    [call.shopId, call.userId, call.key, call.token],
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
 * Returns the hash of a request. The order of names and the idempotency key do not change it.
 *
 * @param input the parsed arguments. Null fields must have been replaced by absent ones.
 */
export function hashOfRequest(input: Readonly<Record<string, unknown>>): Buffer {
  const { idempotency_key: _, ...rest } = input;
  const text = JSON.stringify(rest, (_name, value: unknown) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
  return createHash('sha256').update(text).digest();
}
