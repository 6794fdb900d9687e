import { isUnavailable } from '../../services/platform/errors.ts';
import { createBoundedCache } from '../auth/bounded-cache.ts';
import type { ActionContext } from './context.ts';
import { listDestinations } from './destinations.ts';

/** The name of a destination; null for one that is unknown, or while nobody can be asked. */
export type DestinationNames = (context: ActionContext, id: bigint) => Promise<string | null>;

const SHOPS_MAX = 1_000;
/** A new name may take as long to show. Milliseconds. */
const TTL_MS = 60_000;
/** How long nobody asks a service again that did not answer. Milliseconds. */
const AWAY_MS = 2_000;

/**
 * Names of destinations, to stand beside their ids. A shop has at most 1,000 of them and they hardly
 * change, so each shop's are remembered for a minute: a return then costs no second call.
 *
 * A name is a kindness: that the destinations service is away fails nobody.
 */
export function createDestinationNames(): DestinationNames {
  const shops = createBoundedCache<Promise<ReadonlyMap<bigint, string>>>(SHOPS_MAX);

  const readNames = async (context: ActionContext): Promise<ReadonlyMap<bigint, string>> => {
    try {
      const destinations = await listDestinations(context);
      return new Map(destinations.map(({ id, name }) => [id, name]));
    } catch (error) {
      const none: ReadonlyMap<bigint, string> = new Map();
      shops.set(String(context.shopId), Promise.resolve(none), AWAY_MS);
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
