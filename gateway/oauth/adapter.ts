import { type Adapter, type AdapterPayload, type ClientMetadata, errors } from 'oidc-provider';
import { isOutage } from '../../services/platform/postgres/outage.ts';
import { parseAccountId } from './sign-in/account.ts';
import type { OneTimeRecords } from './sign-in/one-time-records.ts';
import type { GrantFor } from './tokens/issue.ts';

/**
 * Tolerance for two concurrent requests with one code. The second request always fails. When it arrives within this
 * time after the first one, the tokens of the first stay valid. When it arrives later, they are revoked. Milliseconds.
 */
export const RACE_MS = 1_000;
/**
 * The adapter returns a used code with an expiry this far in the future. With its own expiry, an old code would only be
 * reported as expired, and oidc-provider would not revoke its tokens. Seconds.
 */
const REPLAYED_FOR_S = 60;

/** Stores grants. Each code, refresh token and access token belongs to one, and ends with it. */
export interface GrantStore {
  /**
   * Stores a grant. Idempotent: does not change an existing grant with this id.
   *
   * @param grant.scopes what the client asked for.
   * @throws DomainError PERMISSION_DENIED when the user may not grant this; Error when the id belongs to another user's
   *   grant, or to a revoked one.
   */
  put(
    id: string,
    grant: GrantFor & { readonly ttlS: number; readonly scopes: readonly string[] },
  ): Promise<void>;
  /** Undefined when the grant does not exist, is revoked or has expired, or when its client was removed. */
  find(id: string): Promise<AdapterPayload | undefined>;
  /** Ends a grant whose code or refresh token was used twice. Idempotent. */
  revoke(id: string): Promise<void>;
}

export interface AdapterOptions {
  readonly records: OneTimeRecords;
  readonly grants: GrantStore;
  /** Finds a client that is not in the configuration. */
  readonly findClient?: ((id: string) => Promise<ClientMetadata | undefined>) | undefined;
  /**
   * How long a refresh token works after its first use, for clients that lost the response. Milliseconds.
   *
   * The clock of the database measures it. When that clock is set back, the first use is in the future. More than this
   * time in the future counts as reuse, too: otherwise a stolen token would work until the clock has caught up. When the
   * clock is set ahead, the period ends at once. A client that repeats its request at such a moment must connect again.
   */
  readonly refreshGraceMs: number;
  /** Time since the current request arrived. Milliseconds. */
  readonly arrivedMsAgo: () => number;
}

/** The storage adapter of oidc-provider for each of its models, by model name. */
export function createAdapters(o: AdapterOptions): (model: string) => Adapter {
  return (model) => {
    switch (model) {
      case 'AuthorizationCode':
        return guarded(codeAdapter(o));
      case 'RefreshToken':
        return guarded(refreshTokenAdapter(o));
      case 'Interaction':
        return guarded(interactionAdapter(o));
      case 'Grant':
        return guarded(grantAdapter(o));
      case 'Client':
        return guarded({ ...STORES_NOTHING, find: async (id) => o.findClient?.(id) });
      default:
        // Sessions are not stored, because each request is a new sign-in. Access tokens are signed and not stored.
        return STORES_NOTHING;
    }
  };
}

const nothing = async (): Promise<void> => {};
const STORES_NOTHING: Adapter = {
  upsert: nothing,
  find: nothing,
  findByUserCode: nothing,
  findByUid: nothing,
  consume: nothing,
  destroy: nothing,
  revokeByGrantId: nothing,
};

function codeAdapter({ records, arrivedMsAgo }: AdapterOptions): Adapter {
  return {
    ...STORES_NOTHING,
    upsert: (id, payload, ttlS) => put(records, 'AuthorizationCode', { id, payload, ttlS }),
    async find(id) {
      const record = await records.find('AuthorizationCode', id);
      if (!record) return undefined;
      const payload = withId(record.content, id);
      if (record.consumedMsAgo === null) return payload;
      if (Math.abs(record.consumedMsAgo) < arrivedMsAgo() + RACE_MS) return undefined;
      // RFC 6749, 4.1.2: oidc-provider revokes all tokens that were issued for a code when the code is used again.
      return { ...payload, consumed: true, exp: Math.floor(Date.now() / 1_000) + REPLAYED_FOR_S };
    },
    async consume(id) {
      if (await records.consume('AuthorizationCode', id, 0)) return;
      throw new errors.InvalidGrant('authorization code already used');
    },
    revokeByGrantId: (grantId) => records.removeOfGrant('AuthorizationCode', grantId),
  };
}

function refreshTokenAdapter({ records, grants, refreshGraceMs }: AdapterOptions): Adapter {
  return {
    ...STORES_NOTHING,
    upsert: (id, payload, ttlS) => put(records, 'RefreshToken', { id, payload, ttlS }),
    async find(id) {
      const record = await records.find('RefreshToken', id);
      if (!record) return undefined;
      const payload = withId(record.content, id);
      const { consumedMsAgo } = record;
      const isReused = consumedMsAgo !== null && Math.abs(consumedMsAgo) >= refreshGraceMs;
      return isReused ? { ...payload, consumed: true } : payload;
    },
    async consume(id) {
      if (await records.consume('RefreshToken', id, refreshGraceMs)) return;
      // The grace period ended between `find` and here, so this use counts as a reuse.
      const record = await records.find('RefreshToken', id);
      const { grantId } = withId(record?.content, id);
      if (grantId !== undefined) await grants.revoke(grantId);
      throw new errors.InvalidGrant('refresh token already used');
    },
    destroy: (id) => records.remove('RefreshToken', id),
    revokeByGrantId: (grantId) => records.removeOfGrant('RefreshToken', grantId),
  };
}

function interactionAdapter({ records }: AdapterOptions): Adapter {
  return {
    ...STORES_NOTHING,
    upsert: (id, payload, ttlS) => put(records, 'Interaction', { id, payload, ttlS }),
    async find(id) {
      const record = await records.find('Interaction', id);
      return record && withId(record.content, id);
    },
    destroy: (id) => records.remove('Interaction', id),
  };
}

function grantAdapter({ grants }: AdapterOptions): Adapter {
  return {
    ...STORES_NOTHING,
    async upsert(id, payload, ttlS) {
      const account = parseAccountId(payload.accountId ?? '');
      if (!account || payload.clientId === undefined)
        throw new Error('a grant without an account or a client');
      const scopes = Object.values(payload.resources ?? {}).flatMap((text) => text.split(' '));
      await grants.put(id, { ...account, clientId: payload.clientId, ttlS: ttlS ?? 0, scopes });
    },
    find: (id) => grants.find(id),
    destroy: (id) => grants.revoke(id),
  };
}

async function put(
  records: OneTimeRecords,
  kind: 'AuthorizationCode' | 'RefreshToken' | 'Interaction',
  { id, payload, ttlS }: { id: string; payload: AdapterPayload; ttlS: number | undefined },
): Promise<void> {
  const { jti: _withheld, ...content } = payload;
  try {
    // oidc-provider passes a lifetime for each of these models. Without one, the record is stored as expired.
    await records.put(kind, id, { content, ttlS: ttlS ?? 0, grantId: payload.grantId });
  } catch (error) {
    // The grant was deleted after oidc-provider had read it, for example with its installation.
    if (Reflect.get(Object(error), 'code') !== FOREIGN_KEY_VIOLATION) throw error;
    throw new errors.InvalidGrant('the grant has ended');
  }
}

/** SQLSTATE (PostgreSQL, appendix A). */
const FOREIGN_KEY_VIOLATION = '23503';

function withId(content: unknown, id: string): AdapterPayload {
  return { ...(content as AdapterPayload | undefined), jti: id };
}

/** Wraps every function of an adapter in {@link failingClosed}. */
function guarded(adapter: Adapter): Adapter {
  const guard =
    <A extends unknown[], R>(work: (...args: A) => Promise<R>) =>
    (...args: A): Promise<R> =>
      failingClosed(work(...args));
  return {
    upsert: guard(adapter.upsert),
    find: guard(adapter.find),
    findByUserCode: adapter.findByUserCode,
    findByUid: adapter.findByUid,
    consume: guard(adapter.consume),
    destroy: guard(adapter.destroy),
    revokeByGrantId: guard(adapter.revokeByGrantId),
  };
}

/** Converts a database outage to 503 `temporarily_unavailable`. */
export async function failingClosed<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw isOutage(error) ? temporarilyUnavailable(error) : error;
  }
}

/** Creates an OAuth error with status 503. oidc-provider sends it to the client. */
function temporarilyUnavailable(cause: unknown): Error {
  const error = new errors.TemporarilyUnavailable('Sign-in is not available at the moment.');
  return Object.assign(error, { status: 503, statusCode: 503, allow_redirect: false, cause });
}
