import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type {
  ApiKeySchema,
  ApiKeysService,
  CreateApiKeyRequest,
} from '../../../proto/gen/rms/portal/v1/api_keys_pb.ts';
import { OPERATIONS } from '../../../services/contract/operations.ts';
import { openersAmong, SCOPE_RULES, SCOPES } from '../../../services/contract/scopes.ts';
import type { Queryable } from '../../../services/platform/postgres/postgres.ts';
import { roleCovers } from '../../actions/scope-rights.ts';
import { apiKeyMade } from '../../mail/facts.ts';
import {
  type ApiKey,
  findApiKey,
  issueApiKey,
  listApiKeys,
  type MadeKey,
  revokeApiKey,
  rotateApiKey,
} from '../../tenancy/api-keys.ts';
import { approveApiKey, rejectApiKey } from '../../tenancy/key-approval.ts';
import { authorOf, callOf, type PortalCall } from '../call.ts';
import type { Portal } from '../create.ts';
import { invalid, keyOf, notFound, textOf, timeOf } from '../fields.ts';
import { timestampOf } from '../views/values.ts';

/** As in the table. Characters. */
const MAX_DESCRIPTION = 191;
/** Maximum number of revoked and expired keys in a list. */
const MAX_ENDED = 100;
const MAX_LIFETIME_DAYS = 3_650;
const MAX_OVERLAP_HOURS = 168;
const DEFAULT_OVERLAP_HOURS = 24;

/** Manages the shop's API keys. */
export function apiKeysService({ pool, mails }: Portal): ServiceImpl<typeof ApiKeysService> {
  const keyNamed = async ({ session }: PortalCall, id: string): Promise<ApiKey> => {
    const found = await findApiKey(pool, session.shopId, id);
    if (!found) throw notFound('key');
    return found;
  };
  const mailing =
    ({ session: { shopId, userId } }: PortalCall) =>
    async (tx: Queryable, key: MadeKey): Promise<void> =>
      mails?.add(tx, [apiKeyMade({ shopId, userId, ...key })]);
  return {
    async listApiKeys(_request, context) {
      const all = await listApiKeys(pool, callOf(context).session.shopId, MAX_ENDED);
      return { keys: inOrder(all.reverse().map(apiKeyView)) };
    },

    listScopes(_request, context) {
      const { role } = callOf(context).session;
      return {
        scopes: SCOPES.map((scope) => ({
          scope,
          description: SCOPE_RULES[scope].text,
          operations: OPERATIONS.filter(
            (operation) => openersAmong([scope], operation).length > 0,
          ).map(({ method, path }) => `${method} ${path}`),
          needsOwner: !roleCovers(role, scope),
        })),
      };
    },

    async createApiKey({ idempotencyKey, description, scopes, ...lifetime }, context) {
      const call = callOf(context);
      if (scopes.length === 0) throw invalid('scopes', 'must have at least one scope');
      const { keyId, text } = await issueApiKey(pool, {
        shopId: call.session.shopId,
        scopes,
        ...expiryOf(lifetime),
        by: authorOf(call),
        description: textOf('description', description, MAX_DESCRIPTION),
        idempotencyKey: keyOf(call, idempotencyKey),
        keyMade: mailing(call),
      });
      return { key: apiKeyView(await keyNamed(call, keyId)), text };
    },

    async rotateApiKey({ idempotencyKey, keyId, overlapHours }, context) {
      const call = callOf(context);
      const hours = overlapHours ?? DEFAULT_OVERLAP_HOURS;
      if (hours < 0 || hours > MAX_OVERLAP_HOURS) {
        throw invalid('overlap_hours', `must be 0 to ${MAX_OVERLAP_HOURS}`);
      }
      const issued = await rotateApiKey(pool, {
        shopId: call.session.shopId,
        keyId,
        overlapHours: hours,
        by: authorOf(call),
        idempotencyKey: keyOf(call, idempotencyKey),
        keyMade: mailing(call),
      });
      return {
        key: apiKeyView(await keyNamed(call, issued.keyId)),
        text: issued.text,
        former: apiKeyView(await keyNamed(call, keyId)),
      };
    },

    async approveApiKey({ keyId }, context) {
      const call = callOf(context);
      await approveApiKey(pool, { shopId: call.session.shopId, keyId, by: authorOf(call) });
      return { key: apiKeyView(await keyNamed(call, keyId)) };
    },

    async rejectApiKey({ keyId }, context) {
      const call = callOf(context);
      await rejectApiKey(pool, { shopId: call.session.shopId, keyId, by: authorOf(call) });
      return { key: apiKeyView(await keyNamed(call, keyId)) };
    },

    async revokeApiKey({ keyId }, context) {
      const call = callOf(context);
      await revokeApiKey(pool, { shopId: call.session.shopId, keyId, by: authorOf(call) });
      return { key: apiKeyView(await keyNamed(call, keyId)) };
    },
  };
}

/** When a new key expires. A page counts in days, because the clock of its browser may be wrong. */
function expiryOf({
  expiresAt,
  lifetimeDays,
}: Pick<CreateApiKeyRequest, 'expiresAt' | 'lifetimeDays'>) {
  if (lifetimeDays !== undefined && (lifetimeDays < 1 || lifetimeDays > MAX_LIFETIME_DAYS)) {
    throw invalid('lifetime_days', `must be 1 to ${MAX_LIFETIME_DAYS}`);
  }
  const at = timeOf('expires_at', expiresAt);
  if (at && at.getTime() <= Date.now()) throw invalid('expires_at', 'must be in the future');
  return { expiresAt: at, lifetimeDays };
}

type KeyView = MessageInitShape<typeof ApiKeySchema>;

/**
 * Puts keys that wait for an owner first, a replaced key that still works below the key that replaces it, and keys that
 * no longer work at the end.
 */
function inOrder(keys: readonly KeyView[]): KeyView[] {
  const valid = keys.filter(({ state }) => state === 'valid');
  const ids = new Set(valid.map(({ id }) => id));
  const formerOf = new Map(valid.map((key) => [key.replacedBy, key]));
  // A key replaces at most one other.
  const withFormer = (key: KeyView): KeyView[] => {
    const former = formerOf.get(key.id);
    return former ? [key, ...withFormer(former)] : [key];
  };
  const newest = valid.filter(({ replacedBy }) => !ids.has(replacedBy));
  return [
    ...keys.filter(({ state }) => state === 'waiting'),
    ...newest.flatMap(withFormer),
    ...keys.filter(({ state }) => state !== 'valid' && state !== 'waiting'),
  ];
}

function apiKeyView(key: ApiKey): KeyView {
  const [expiresAt, revokedAt] = [timestampOf(key.expiresAt), timestampOf(key.revokedAt)];
  const lastUsedAt = timestampOf(key.lastUsedAt);
  const { createdByKind: kind, createdById, createdByName } = key;
  return {
    id: key.keyId,
    description: key.description,
    scopes: [...key.scopes],
    state: stateOf(key),
    createdAt: timestampFromDate(key.createdAt),
    createdBy: { kind, id: createdById, name: createdByName ?? '' },
    ...(expiresAt && { expiresAt }),
    ...(revokedAt && { revokedAt }),
    ...(lastUsedAt && { lastUsedAt }),
    lastOperation: key.lastOperation ?? '',
    restPerMinute: key.restPerMinute ?? 0,
    sandbox: key.sandbox,
    replacedBy: key.replacedBy ?? '',
  };
}

function stateOf({ revokedAt, hasExpired, isWaiting }: ApiKey): string {
  if (revokedAt) return 'revoked';
  if (hasExpired) return 'expired';
  return isWaiting ? 'waiting' : 'valid';
}
