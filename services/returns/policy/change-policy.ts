import { create, equals } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  type GetPolicyRequest,
  type GetPolicyResponse,
  GetPolicyResponseSchema,
  PolicySchema,
  type UpdatePolicyRequest,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { DomainError } from '../../platform/values/errors.ts';
import { callerShape, parseInput } from '../../platform/values/input.ts';
import { optionalId } from '../fields.ts';
import { loadSettings } from '../settings.ts';
import { insertPolicy, loadPolicy, loadPolicyVersion, type PolicyVersion } from './policy-store.ts';
import { canonical } from './validate.ts';

const reading = z.object({ ...callerShape, version: optionalId });

/**
 * Reads the policy that is in force, or an earlier version.
 *
 * @throws DomainError INVALID_ARGUMENT; NOT_FOUND for a version that the shop does not have.
 */
export async function getPolicy(
  db: Queryable,
  request: GetPolicyRequest,
): Promise<GetPolicyResponse> {
  const { shopId, version } = parseInput(reading, request);
  const found =
    version === 0n ? await loadPolicy(db, shopId) : await loadPolicyVersion(db, shopId, version);
  if (!found) throw versionNotFound();
  const { policy, version: own, createdAt } = found;
  return create(GetPolicyResponseSchema, {
    policy,
    version: own,
    ...(createdAt && { updatedAt: timestampFromDate(createdAt) }),
  });
}

function versionNotFound(): DomainError {
  const text = 'version must be a version of the policy';
  return new DomainError(Code.NotFound, ErrorReason.INVALID_FIELD, text, { field: 'version' });
}

const change = z.object({ ...callerShape, expectedVersion: optionalId });

/**
 * Makes a new version of the shop's policy. Of two concurrent calls with the same expected version, one makes it. A
 * policy that is equal to the one in force makes none, whatever the expected version: a repeat of a call whose answer
 * was lost gets the version that the call made.
 *
 * @throws DomainError INVALID_ARGUMENT with the path of the invalid field; REVISION_CONFLICT when another version than
 *   the expected one is in force; SHOP_NOT_CONFIGURED.
 */
export async function updatePolicy(
  pool: pg.Pool,
  request: UpdatePolicyRequest,
): Promise<Pick<PolicyVersion, 'policy' | 'version'>> {
  const { shopId, actor, expectedVersion: expected } = parseInput(change, request);
  const { currency } = await loadSettings(pool, shopId);
  const policy = canonical(request.policy, currency);
  const isInForce = (current: PolicyVersion) => equals(PolicySchema, current.policy, policy);

  const before = await loadPolicy(pool, shopId);
  if (isInForce(before)) return { policy, version: before.version };
  if (await insertPolicy(pool, { shopId, actor, policy, expected })) {
    return { policy, version: expected + 1n };
  }
  const now = await loadPolicy(pool, shopId);
  if (isInForce(now)) return { policy, version: now.version };
  throw new DomainError(
    Code.Aborted,
    ErrorReason.REVISION_CONFLICT,
    `the policy is now at version ${now.version}; read it again`,
    { field: 'expected_version' },
  );
}
