import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import { addMember, removeMember } from '../../../gateway/tenancy/members.ts';
import type { Role } from '../../../gateway/tenancy/permissions.ts';
import { ensureUser } from '../../../gateway/tenancy/users.ts';
import { LOCAL_ACTOR } from '../clients.ts';
import type { Account } from '../identity/accounts.ts';
import type { MemoryFile } from '../memory.ts';
import type { Holder, McpTokens } from './mcp-tokens.ts';

/** A person of the demo, with the role in the first and the second shop. */
interface Person {
  readonly name: string;
  readonly roles: readonly (Role | undefined)[];
  /** The memberships were removed. */
  readonly removed?: boolean;
}

/** The person who creates and owns both demo shops. */
export const FOUNDER = 'owner';

const PEOPLE: readonly Person[] = [
  { name: FOUNDER, roles: ['owner'] },
  { name: 'two_shops', roles: ['admin', 'returns_agent'] },
  { name: 'no_shop', roles: [] },
  { name: 'admin', roles: ['admin'] },
  { name: 'warehouse', roles: ['warehouse'] },
  { name: 'analyst', roles: ['analyst'] },
  { name: 'returns_agent', roles: ['returns_agent'] },
  { name: 'developer', roles: ['developer'] },
  { name: 'removed', roles: ['admin'], removed: true },
];

/** The founder of the second shop, who is not in the stack file's list of users. */
export const SECOND_FOUNDER_EMAIL = 'second-owner@example.com';

export function emailOf(name: string): string {
  return `${name.replace('_', '-')}@example.com`;
}

/** The accounts that can sign in. Their passwords are stored with the data. */
export function accountsOf(memory: MemoryFile): Account[] {
  return PEOPLE.map(({ name }) => ({
    id: `user-${name}`,
    name,
    email: emailOf(name),
    password: memory.secretOf(`password:${name}`, () => randomBytes(12).toString('base64url')),
  }));
}

const by = { actor: LOCAL_ACTOR, source: 'npm start' };

/** Creates the memberships of the demo's people. Safe to run again. */
export async function seedPeople(pool: pg.Pool, shopIds: readonly number[]): Promise<void> {
  // Creating the shops created the founder without a name.
  await ensureUser(pool, emailOf(FOUNDER), FOUNDER);
  for (const { name, roles, removed } of PEOPLE) {
    for (const [at, role] of roles.entries()) {
      const shopId = BigInt(shopIds[at] ?? 0);
      if (!role || name === FOUNDER) continue;
      const member = { shopId, email: emailOf(name), by };
      await addMember(pool, { ...member, role, name });
      if (removed) await removeMember(pool, member);
    }
  }
}

/** The people in the stack file; without passwords when they sign in at another issuer. */
export function usersOf(
  memory: MemoryFile,
  o: {
    readonly shopIds: readonly number[];
    readonly signInHere: boolean;
    readonly mcpTokens: (holder: Holder) => Promise<McpTokens>;
  },
) {
  const { shopIds } = o;
  return Promise.all(
    accountsOf(memory).map(async ({ name, email, password }) => ({
      name,
      email,
      ...(o.signInHere && { password }),
      memberships: membershipsOf(name, shopIds),
      // A removed person still has a token for the former membership.
      mcp_tokens: await o.mcpTokens({ email, shopIds: rolesOf(name, shopIds).map(shopOf) }),
    })),
  );
}

const shopOf = ({ shop_id }: { readonly shop_id: number }): number => shop_id;

function membershipsOf(name: string, shopIds: readonly number[]) {
  const isRemoved = PEOPLE.find((one) => one.name === name)?.removed;
  return isRemoved ? [] : rolesOf(name, shopIds);
}

function rolesOf(name: string, shopIds: readonly number[]) {
  const roles = PEOPLE.find((one) => one.name === name)?.roles ?? [];
  return roles.flatMap((role, at) => {
    const shopId = shopIds[at];
    return role && shopId !== undefined ? [{ shop_id: shopId, role }] : [];
  });
}
