import { create, fromJson, type JsonValue, toJson } from '@bufbuild/protobuf';
import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  type AutomaticProcessing,
  AutomaticProcessingSchema,
  type Policy,
  PolicySchema,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { actorKindText } from '../../platform/values/actor.ts';

/** One version of a shop's policy. */
export interface PolicyVersion {
  /** Empty, which allows everything, for a shop without a policy. */
  readonly policy: Policy;
  /** 0 for a shop without a policy. */
  readonly version: bigint;
  /** When the version was made; undefined for a shop without a policy. */
  readonly createdAt?: Date;
}

interface PolicyRow {
  readonly version: bigint;
  readonly policy: JsonValue;
  readonly created_at: Date;
}

/** Reads the policy that is in force: one statement that reads one row by the primary key. */
export async function loadPolicy(db: Queryable, shopId: bigint): Promise<PolicyVersion> {
  const { rows } = await db.query<PolicyRow>({
    name: 'load-policy',
    text: `select version, policy, created_at from policies
            where shop_id = $1 order by version desc limit 1`,
    values: [shopId],
  });
  return rows[0] ? toVersion(rows[0]) : { policy: create(PolicySchema), version: 0n };
}

/** Reads one version of a policy. Undefined when the shop has no such version. */
export async function loadPolicyVersion(
  db: Queryable,
  shopId: bigint,
  version: bigint,
): Promise<PolicyVersion | undefined> {
  const { rows } = await db.query<PolicyRow>({
    name: 'load-policy-version',
    text: 'select version, policy, created_at from policies where shop_id = $1 and version = $2',
    values: [shopId, version],
  });
  return rows[0] && toVersion(rows[0]);
}

/**
 * Reads some parts of one version of a policy, which may be large, in their order. A part that the policy does not have
 * is null. Empty when the shop has no such version.
 *
 * @param parts names in the proto JSON, such as `refundBasis`.
 */
async function loadParts(
  db: Queryable,
  { shopId, version }: { readonly shopId: bigint; readonly version: bigint },
  parts: readonly string[],
): Promise<readonly (JsonValue | null)[]> {
  if (version === 0n) return [];
  const { rows } = await db.query<{ parts: (JsonValue | null)[] }>({
    name: 'load-policy-parts',
    text: `select (select jsonb_agg(policy -> part order by n)
                     from unnest($3::text[]) with ordinality as p (part, n)) as parts
             from policies where shop_id = $1 and version = $2`,
    values: [shopId, version, parts],
  });
  return rows[0]?.parts ?? [];
}

/** Reads when a version of a policy processes returns without a person. Undefined when it does not. */
export async function loadAutomaticProcessing(
  db: Queryable,
  of: { readonly shopId: bigint; readonly version: bigint },
): Promise<AutomaticProcessing | undefined> {
  const [process] = await loadParts(db, of, ['process']);
  return process ? fromJson(AutomaticProcessingSchema, process, LENIENT) : undefined;
}

/** Inserts the version after `expected`. Returns false when the shop has a newer version than `expected` already. */
export async function insertPolicy(
  db: Queryable,
  o: {
    readonly shopId: bigint;
    readonly actor: Actor;
    readonly policy: Policy;
    readonly expected: bigint;
  },
): Promise<boolean> {
  const { shopId, actor, expected } = o;
  const { rowCount } = await db.query(
    `insert into policies (shop_id, version, policy, actor_kind, actor_id, actor_name, actor_through)
     select $1::bigint, $2::bigint + 1, $3::jsonb, $4, $5, $6, $7
      where $2 = (select coalesce(max(version), 0) from policies where shop_id = $1)
     on conflict (shop_id, version) do nothing`,
    [
      shopId,
      expected,
      JSON.stringify(toJson(PolicySchema, o.policy)),
      actorKindText.toText(actor.kind),
      actor.id,
      actor.name,
      actor.through,
    ],
  );
  return rowCount === 1;
}

/** A newer release may have stored fields that this one does not know. */
const LENIENT = { ignoreUnknownFields: true };

function toVersion(row: PolicyRow): PolicyVersion {
  return {
    policy: fromJson(PolicySchema, row.policy, LENIENT),
    version: row.version,
    createdAt: row.created_at,
  };
}
