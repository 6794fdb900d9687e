import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import type { Author } from './audit.ts';
import { endGrants } from './grants.ts';
import { endPartnerGrants } from './partner-grants.ts';

/**
 * Ends what a person has in a shop through others: assistants and apps. Sessions of the portal end with the link of the
 * membership, which the caller has removed or renewed. The person must sign in again to get any of it.
 */
export async function endAccess(
  tx: Queryable,
  whose: { readonly shopId: bigint; readonly userId: bigint },
  why: { readonly by: Author; readonly why: 'member_removed' | 'account_unlinked' },
): Promise<void> {
  await endGrants(tx, whose, why);
  await endPartnerGrants(tx, whose, why);
}
