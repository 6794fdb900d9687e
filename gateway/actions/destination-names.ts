import { isUnavailable } from '../../services/platform/values/errors.ts';
import { createBoundedCache } from '../auth/bounded-cache.ts';
import type { ActionContext } from './context.ts';
import { listDestinations } from './destinations.ts';

/** Returns the name of a destination; null when it is unknown or the destinations service is unavailable. */
export type DestinationNames = (context: ActionContext, id: bigint) => Promise<string | null>;

const SHOPS_MAX = 1_000;
/** How long the names of a shop are cached. A new name appears after at most this time. Milliseconds. */
const TTL_MS = 60_000;
/** How long the service is not called again after a failure. Milliseconds. */
const UNAVAILABLE_TTL_MS = 2_000;

/**
 * Creates the reader of destination names, which responses show next to the ids. A shop has at most 1,000 destinations
 * and rarely changes them, so the names of each shop are cached for a minute.
 *
 * Names are optional: when the destinations service is unavailable, the request succeeds without them.
 */
export function createDestinationNames(): DestinationNames {
  const shops = createBoundedCache<Promise<ReadonlyMap<bigint, string>>>(SHOPS_MAX);

  const readNames = async (context: ActionContext): Promise<ReadonlyMap<bigint, string>> => {
    try {
      const destinations = await listDestinations(context);
      return new Map(destinations.map(({ id, name }) => [id, name]));
    } catch (error) {
      const none: ReadonlyMap<bigint, string> = new Map();
      shops.set(String(context.shopId), Promise.resolve(none), UNAVAILABLE_TTL_MS);
      if (isUnavailable(error)) return none;
      throw error;
    }
  };

  return async (context, id) => {
    if (id === 0n) return null;
    const key = String(context.shopId);
    let names = shops.get(key);
    if (!names) {
      names = readNames(context);
      shops.set(key, names, TTL_MS);
    }
    return (await names).get(id) ?? null;
  };
}
