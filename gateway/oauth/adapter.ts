import { type Adapter, type AdapterPayload, errors } from 'oidc-provider';
import { isOutage } from '../../services/platform/outage.ts';
import { parseAccountId } from './account.ts';
import { type Grants, grantPayload } from './grants.ts';
import type { Tickets } from './tickets.ts';

/** A rotated refresh token goes on working so long, for a client that lost the answer. Milliseconds. */
const REFRESH_GRACE_MS = 30_000;
/**
 * A code that was used since the request arrived, or just before, is a race and no replay: it is refused,
 * but the tokens of whoever won are left alone. Milliseconds.
 */
export const RACE_MS = 1_000;
/** Long enough for a replayed code to be known as one, whatever its own expiry says. Seconds. */
const REPLAYED_FOR_S = 60;

export interface AdapterOptions {
  readonly tickets: Tickets;
  readonly grants: Grants;
  /** How long ago the request being served came in. Milliseconds. */
  readonly arrivedMsAgo: () => number;
}

/** What oidc-provider keeps its models in, by the name of the model. */
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
      default:
        // Sessions: everybody signs in anew. Clients: configuration. Access tokens: signed, not stored.
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

function codeAdapter({ tickets, arrivedMsAgo }: AdapterOptions): Adapter {
  return {
    ...STORES_NOTHING,
    upsert: (id, payload, ttlS) => put(tickets, 'AuthorizationCode', { id, payload, ttlS }),
    async find(id) {
      const ticket = await tickets.find('AuthorizationCode', id);
      if (!ticket) return undefined;
      const payload = withId(ticket.content, id);
      if (ticket.consumedMsAgo === null) return payload;
      if (ticket.consumedMsAgo < arrivedMsAgo() + RACE_MS) return undefined;
      // RFC 6749, 4.1.2: the provider revokes the family when it sees that it was used before.
      return { ...payload, consumed: true, exp: Math.floor(Date.now() / 1_000) + REPLAYED_FOR_S };
    },
    async consume(id) {
      if (await tickets.consume('AuthorizationCode', id, 0)) return;
      throw new errors.InvalidGrant('authorization code already used');
    },
    revokeByGrantId: (grantId) => tickets.removeOfGrant('AuthorizationCode', grantId),
  };
}

function refreshTokenAdapter({ tickets, grants }: AdapterOptions): Adapter {
  return {
    ...STORES_NOTHING,
    upsert: (id, payload, ttlS) => put(tickets, 'RefreshToken', { id, payload, ttlS }),
    async find(id) {
      const ticket = await tickets.find('RefreshToken', id);
      if (!ticket) return undefined;
      const payload = withId(ticket.content, id);
      const isReused = ticket.consumedMsAgo !== null && ticket.consumedMsAgo >= REFRESH_GRACE_MS;
      return isReused ? { ...payload, consumed: true } : payload;
    },
    async consume(id) {
      if (await tickets.consume('RefreshToken', id, REFRESH_GRACE_MS)) return;
      // The grace ended between reading and using it: reuse all the same.
      const ticket = await tickets.find('RefreshToken', id);
      const { grantId } = withId(ticket?.content, id);
      if (grantId !== undefined) await grants.revoke(grantId);
      throw new errors.InvalidGrant('refresh token already used');
    },
    destroy: (id) => tickets.remove('RefreshToken', id),
    revokeByGrantId: (grantId) => tickets.removeOfGrant('RefreshToken', grantId),
  };
}

function interactionAdapter({ tickets }: AdapterOptions): Adapter {
  return {
    ...STORES_NOTHING,
    upsert: (id, payload, ttlS) => put(tickets, 'Interaction', { id, payload, ttlS }),
    async find(id) {
      const ticket = await tickets.find('Interaction', id);
      return ticket && withId(ticket.content, id);
    },
    destroy: (id) => tickets.remove('Interaction', id),
  };
}

function grantAdapter({ grants }: AdapterOptions): Adapter {
  return {
    ...STORES_NOTHING,
    async upsert(id, payload, ttlS) {
      const account = parseAccountId(payload.accountId ?? '');
      if (!account || payload.clientId === undefined) throw new Error('a grant of nobody');
      await grants.put(id, { ...account, clientId: payload.clientId, ttlS: ttlS ?? 0 });
    },
    async find(id) {
      const grant = await grants.find(id);
      return grant && grantPayload(id, grant);
    },
    destroy: (id) => grants.revoke(id),
  };
}

function put(
  tickets: Tickets,
  kind: 'AuthorizationCode' | 'RefreshToken' | 'Interaction',
  { id, payload, ttlS }: { id: string; payload: AdapterPayload; ttlS: number | undefined },
): Promise<void> {
  const { jti: _withheld, ...content } = payload;
  // Without an end it would be past at once; the provider gives each one.
  return tickets.put(kind, id, { content, ttlS: ttlS ?? 0, grantId: payload.grantId });
}

function withId(content: unknown, id: string): AdapterPayload {
  return { ...(content as AdapterPayload | undefined), jti: id };
}

/** {@link failingClosed} for every function of an adapter. */
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

/** While the database is away nothing is granted, and the answer says that it passes. */
export async function failingClosed<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw isOutage(error) ? temporarilyUnavailable(error) : error;
  }
}

/** An OAuth error of its own status, which the library sends as it is. */
function temporarilyUnavailable(cause: unknown): Error {
  const error = new errors.TemporarilyUnavailable('Sign-in is not available at the moment.');
  return Object.assign(error, { status: 503, statusCode: 503, allow_redirect: false, cause });
}
