import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { onlyRow } from '../../services/platform/postgres/only-row.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres/postgres.ts';
import { stateForbids } from '../../services/platform/values/errors.ts';
import type { Services } from '../services.ts';
import { type Author, recordAudit } from './audit.ts';
import { requireShop } from './shops.ts';

/**
 * After this time, every replica has read each key and installation again, with the environment of its shop.
 * Milliseconds.
 */
export const EFFECTIVE_AFTER_MS = 5_000;

export interface EnvironmentSwitch {
  readonly shopId: bigint;
  readonly sandbox: boolean;
  /** Switch even when active keys of the other kind stop working. */
  readonly force: boolean;
  readonly by: Author;
  /** Normally {@link EFFECTIVE_AFTER_MS}. Tests do not wait. */
  readonly effectiveAfterMs: number;
}

/**
 * Makes a shop a sandbox or a live shop in all three places: in the returns service, where the setting decides whether
 * money moves, in the webhooks service, and in the gateway. A call may be repeated after a failure, and then completes
 * the switch.
 *
 * A response or webhook may say `sandbox` only while no money can move. So a shop that becomes a sandbox changes first
 * in the returns service and last in the gateway. A shop that becomes live changes first in the gateway. It changes in
 * the returns service when no replica accepts a credential for the sandbox any more. In between the shop looks live
 * although no money moves.
 *
 * @returns the number of active keys that do not work, because they are of the other kind.
 * @throws DomainError NOT_FOUND; FAILED_PRECONDITION while the shop has active keys of the other kind, an effect with
 *   an unknown outcome or a return in process, or while another call switches the shop. Then nothing has changed,
 *   except that a shop that becomes live may already be live in the gateway.
 */
export async function switchEnvironment(
  pool: pg.Pool,
  services: Pick<Services, 'returns' | 'webhooks'>,
  o: EnvironmentSwitch,
): Promise<number> {
  // The lock occupies a connection of the pool until the switch ends. So the pool needs a second connection for the
  // other statements.
  const lock = await lockSwitch(pool, o.shopId);
  try {
    const shop = await requireShop(pool, o.shopId);
    if (!o.force && shop.sandbox !== o.sandbox) await requireNoOtherKeys(pool, o);
    await (o.sandbox ? makeSandbox(pool, services, o) : makeLive(pool, services, o));
    return await countOtherKeys(pool, o);
  } finally {
    await lock.release();
  }
}

async function makeSandbox(
  pool: pg.Pool,
  { returns, webhooks }: Pick<Services, 'returns' | 'webhooks'>,
  o: EnvironmentSwitch,
): Promise<void> {
  const call = { shopId: o.shopId, actor: o.by.actor };
  await returns.updateSettings({ ...call, settings: { sandbox: true } });
  await webhooks.setSandbox({ ...call, sandbox: true });
  await store(pool, o);
}

async function makeLive(
  pool: pg.Pool,
  { returns, webhooks }: Pick<Services, 'returns' | 'webhooks'>,
  o: EnvironmentSwitch,
): Promise<void> {
  const call = { shopId: o.shopId, actor: o.by.actor };
  const settings = { sandbox: false };
  await returns.updateSettings({ ...call, settings, validateOnly: true });
  await store(pool, o);
  await webhooks.setSandbox({ ...call, sandbox: false });
  await sleep(o.effectiveAfterMs);
  await returns.updateSettings({ ...call, settings });
}

function store(pool: pg.Pool, { shopId, sandbox, by }: EnvironmentSwitch): Promise<void> {
  return inTransaction(pool, async (tx) => {
    await tx.query('update shops set sandbox = $2 where id = $1', [shopId, sandbox]);
    await recordAudit(tx, {
      shopId,
      by,
      action: 'shop.sandbox.set',
      subject: String(shopId),
      detail: { sandbox },
    });
  });
}

async function requireNoOtherKeys(db: Queryable, o: EnvironmentSwitch): Promise<void> {
  const count = await countOtherKeys(db, o);
  if (count === 0) return;
  throw stateForbids(
    `${count} active keys of the shop would stop working: revoke them, or repeat this with --force`,
  );
}

async function countOtherKeys(
  db: Queryable,
  { shopId, sandbox }: Pick<EnvironmentSwitch, 'shopId' | 'sandbox'>,
): Promise<number> {
  const result = await db.query<{ count: number }>(
    `select count(*)::int as count from api_keys
      where shop_id = $1 and sandbox <> $2 and revoked_at is null
        and (expires_at is null or expires_at > now())`,
    [shopId, sandbox],
  );
  return onlyRow(result).count;
}

/**
 * Locks the switch of a shop. Two switches at the same time could end with a shop that says `sandbox` and moves money.
 */
async function lockSwitch(
  pool: pg.Pool,
  shopId: bigint,
): Promise<{ release: () => Promise<void> }> {
  const client = await pool.connect();
  const key = `switch of shop ${shopId}`;
  try {
    const { rows } = await client.query<{ locked: boolean }>(
      'select pg_try_advisory_lock(hashtextextended($1, 0)) as locked',
      [key],
    );
    if (!rows[0]?.locked) throw stateForbids('another command is switching this shop');
  } catch (error) {
    client.release();
    throw error;
  }
  return {
    async release() {
      try {
        await client.query('select pg_advisory_unlock(hashtextextended($1, 0))', [key]);
        client.release();
      } catch (error) {
        // Close the connection, because its end releases the lock.
        client.release(true);
        throw error;
      }
    },
  };
}
