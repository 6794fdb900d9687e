import type pg from 'pg';
import { addMember } from '../../../gateway/tenancy/members.ts';
import type { Role } from '../../../gateway/tenancy/permissions.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { createPool } from '../../../services/platform/postgres/postgres.ts';
import { personOf } from '../mcp/shared-stack.ts';
import type { OpenStack } from '../stack.ts';

/** The gateway's schema, for what no API of the stack makes for a test. */
export function gatewayPool({ file }: OpenStack): pg.Pool {
  const url = new URL(file.database_url);
  url.searchParams.set('options', '-c search_path=gateway');
  return createPool(url.href);
}

export async function userIdOf(pool: pg.Pool, stack: OpenStack, name: string): Promise<bigint> {
  const text = 'select id from users where email = $1';
  const { rows } = await pool.query<{ id: bigint }>(text, [personOf(stack, name).email]);
  if (!rows[0]) throw new Error(`the gateway has no user ${name}`);
  return rows[0].id;
}

/** Adds a member to the first shop, as the operator's command does. Returns the user's id. */
export async function addTeamMember(
  stack: OpenStack,
  member: { readonly email: string; readonly role: Role; readonly name?: string },
): Promise<string> {
  const pool = gatewayPool(stack);
  const by = { actor: { kind: Actor_Kind.SYSTEM, id: 'admin', name: 'Operator' } };
  const shopId = BigInt(stack.shop.id);
  const { userId } = await addMember(pool, { ...member, shopId, by }).finally(() => pool.end());
  return String(userId);
}
