import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { sql } from '../../services/platform/postgres/sql.ts';
import type { Author } from './audit.ts';
import { endGrants } from './grants.ts';
import { rejectKeysOf } from './key-approval.ts';
import { endPartnerGrants } from './partner-grants.ts';
import { endSessions } from './session-log.ts';

/**
 * Ends all access of a person to a shop: sessions of the portal, assistants, and apps that act for the person. The
 * person must sign in again to get any of it. Invitations that the person made already end with the right to make them.
 * API keys belong to the shop and stay: `ListedMember.keys` names those that the person made. Only those that still wait
 * for an owner are rejected.
 *
 * The membership gets another link, so that no older session can be moved into the shop, nor one that starts at the same
 * time.
 */
export async function endAccess(
  tx: Queryable,
  whose: { readonly shopId: bigint; readonly userId: bigint },
  why: {
    readonly by: Author;
    readonly why: 'member_removed' | 'account_unlinked' | 'access_ended';
  },
): Promise<void> {
  const { shopId, userId } = whose;
  await tx.query(
    'update memberships set link = gen_random_uuid() where shop_id = $1 and user_id = $2',
    [shopId, userId],
  );
  await endSessions(tx, sql`shop_id = ${shopId} and user_id = ${userId}`, why);
  await endGrants(tx, whose, why);
  await endPartnerGrants(tx, whose, why);
  await rejectKeysOf(tx, whose, why);
}
