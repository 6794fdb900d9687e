import type pg from 'pg';
import { acquireLease, type Lease, releaseLease, renewLease } from '../leases.ts';
import { SHARDS } from './append.ts';

/** After a crash another replica goes on within this time. */
export const SHARD_LEASE_MS = 5_000;

/** A member without a sign of life for so long does not come back. Milliseconds. */
const FORGET_AFTER_MS = 60_000;

const MEMBER_PREFIX = 'relay/member/';
const SHARD_PREFIX = 'relay/shard/';

export interface ShardHolder {
  /** Shards that are ours at this moment. */
  held(): number[];
  /** Says that we are alive, keeps our share of the shards, takes free ones, gives back extra ones. */
  tend(): Promise<void>;
  /** Gives everything back at once, for the others to take. */
  release(): Promise<void>;
}

/** Divides the shards evenly among the replicas that are alive. */
export function createShardHolder(pool: pg.Pool, owner: string): ShardHolder {
  const leases = new Map<number, { lease: Lease; safeUntil: number }>();
  let membership: Lease | undefined;

  /** Each process has a name of its own: the row of one that was killed is never taken over. */
  async function forgetDeadMembers(): Promise<void> {
    await pool.query(
      `delete from leases
       where starts_with(name, $1) and expires_at < clock_timestamp() - $2 * interval '1 millisecond'`,
      [MEMBER_PREFIX, FORGET_AFTER_MS],
    );
  }

  async function joinMembers(): Promise<number> {
    if (membership && !(await renewLease(pool, membership, SHARD_LEASE_MS))) membership = undefined;
    if (!membership) {
      await forgetDeadMembers();
      const name = `${MEMBER_PREFIX}${owner}`;
      membership = await acquireLease(pool, { name, owner, ttlMs: SHARD_LEASE_MS });
    }
    const { rows } = await pool.query<{ members: bigint }>(
      `select count(*) as members from leases
       where starts_with(name, $1) and expires_at > clock_timestamp()`,
      [MEMBER_PREFIX],
    );
    return Math.max(1, Number(rows[0]?.members ?? 1n));
  }

  async function keep(): Promise<void> {
    for (const [shard, { lease }] of leases) {
      const asked = Date.now();
      const renewed = await renewLease(pool, lease, SHARD_LEASE_MS);
      if (renewed) leases.set(shard, { lease, safeUntil: asked + SHARD_LEASE_MS });
      else leases.delete(shard);
    }
  }

  async function balance(share: number): Promise<void> {
    for (const [shard, { lease }] of [...leases].slice(share)) {
      leases.delete(shard);
      await releaseLease(pool, lease);
    }
    for (let shard = 0; shard < SHARDS && leases.size < share; shard += 1) {
      if (leases.has(shard)) continue;
      const asked = Date.now();
      const name = `${SHARD_PREFIX}${shard}`;
      const lease = await acquireLease(pool, { name, owner, ttlMs: SHARD_LEASE_MS });
      if (lease) leases.set(shard, { lease, safeUntil: asked + SHARD_LEASE_MS });
    }
  }

  return {
    held() {
      const now = Date.now();
      return [...leases].filter(([, { safeUntil }]) => now < safeUntil).map(([shard]) => shard);
    },
    async tend() {
      const members = await joinMembers();
      await keep();
      await balance(Math.ceil(SHARDS / members));
    },
    async release() {
      const all = [...leases.values()].map(({ lease }) => lease);
      leases.clear();
      if (membership) all.push(membership);
      membership = undefined;
      for (const lease of all) await releaseLease(pool, lease);
    },
  };
}
