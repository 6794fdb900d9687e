import type pg from 'pg';
import { CONNECT_APPS } from '../../../gateway/auth/partner-people.ts';
import { shopsOfEmail } from '../../../gateway/oauth/account.ts';
import { ROLE_NAMES } from '../../../gateway/oauth/pages/rights.ts';
import { listMembers } from '../../../gateway/tenancy/members.ts';
import { permits } from '../../../gateway/tenancy/permissions.ts';
import { linkAccount } from '../../../gateway/tenancy/sign-in-accounts.ts';
import { parseEmail } from '../../../gateway/tenancy/users.ts';
import type { Account } from './accounts.ts';

/** A shop of a person who signs in. */
export interface ShopOfAccount {
  readonly shopId: bigint;
  readonly name: string;
  /** Whether the person may connect apps to the shop. */
  readonly mayConnect: boolean;
  /** The members who may, such as `Ada (Owner)`; empty when the person may. */
  readonly whoMay: readonly string[];
}

/** The current shops of a person. */
export type Directory = (account: Account) => Promise<readonly ShopOfAccount[]>;

/** Maximum number of members that the page names. */
const NAMED_MAX = 5;

/**
 * Reads the shops from the gateway's tenancy, and links the account to its memberships, as the sign-in of assistants
 * does. So the gateway finds the member behind `sub` of a partner's token.
 *
 * @param issuer of the accounts.
 */
export function createDirectory(pool: pg.Pool, issuer: string): Directory {
  return async ({ id, email: text, emailVerified = true }) => {
    const email = parseEmail(text);
    if (email === undefined || !emailVerified) return [];
    const { linked } = await linkAccount(pool, { email, account: { issuer, subject: id } });
    const shops = await shopsOfEmail(pool, email);
    const own = shops.filter(({ shopId }) => linked.includes(shopId));
    return Promise.all(
      own.map(async ({ shopId, name, role }) => {
        const mayConnect = permits(role, [CONNECT_APPS]);
        return { shopId, name, mayConnect, whoMay: mayConnect ? [] : await whoMay(pool, shopId) };
      }),
    );
  };
}

async function whoMay(pool: pg.Pool, shopId: bigint): Promise<string[]> {
  const members = await listMembers(pool, shopId);
  return members
    .filter(({ role }) => permits(role, [CONNECT_APPS]))
    .slice(0, NAMED_MAX)
    .map(({ name, email, role }) => `${name ?? email} (${ROLE_NAMES[role]})`);
}
