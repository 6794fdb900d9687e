import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import { addMember, removeMember } from '../../../gateway/tenancy/members.ts';
import type { Role } from '../../../gateway/tenancy/permissions.ts';
import { ensureUser } from '../../../gateway/tenancy/users.ts';
import { LOCAL_ACTOR } from '../clients.ts';
import type { Account } from '../identity/accounts.ts';
import type { MemoryFile } from '../memory.ts';
import type { Holder, McpTokens } from './tokens.ts';

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
  return `${name.replaceAll('_', '-')}@example.com`;
}

/** The accounts that can sign in. Their passwords are stored with the data. */
export function accountsOf(memory: MemoryFile): Account[] {
  return PEOPLE.map((person) => accountOf(memory, person));
}

function accountOf(memory: MemoryFile, { name }: Person): Account {
  return {
    id: `user-${name}`,
    name,
    email: emailOf(name),
    password: memory.secretOf(`password:${name}`, () => randomBytes(12).toString('base64url')),
  };
}

const by = { actor: LOCAL_ACTOR, source: 'npm start' };

/** Creates the memberships of the demo's people. Safe to run again. */
export async function seedPeople(pool: pg.Pool, shopIds: readonly number[]): Promise<void> {
  // Creating the shops created the founder without a name.
  await ensureUser(pool, emailOf(FOUNDER), { name: FOUNDER });
  for (const person of PEOPLE) {
    const { name, removed } = person;
    if (name === FOUNDER) continue;
    for (const { shop_id: shopId, role } of rolesOf(person, shopIds)) {
      const member = { shopId: BigInt(shopId), email: emailOf(name), by };
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
  return Promise.all(
    PEOPLE.map(async (person) => {
      const { name, email, password } = accountOf(memory, person);
      const roles = rolesOf(person, o.shopIds);
      return {
        name,
        email,
        ...(o.signInHere && { password }),
        memberships: person.removed ? [] : roles,
        // A removed person still has a token for the former membership.
        mcp_tokens: await o.mcpTokens({ email, shopIds: roles.map(({ shop_id }) => shop_id) }),
      };
    }),
  );
}

/** The roles of a person in the shops that exist, as the stack file names them. */
function rolesOf({ roles }: Person, shopIds: readonly number[]) {
  return roles.flatMap((role, at) => {
    const shopId = shopIds[at];
    return role && shopId !== undefined ? [{ shop_id: shopId, role }] : [];
  });
}
