import type { Operation } from '../../../services/contract/operation.ts';
import { callIn, firstOf, type Journey } from './journey.ts';

/** The id of an object of the other shop that the path of an operation could name. */
export async function foreignIdOf(journey: Journey, operation: Operation): Promise<number> {
  const shop = journey.stack.otherShop;
  if (operation.path.startsWith('/webhook-replays/')) {
    const filter = { returnId: 987_654_321n };
    const call = { ...callIn(shop), idempotencyKey: 'foreign', filter };
    return Number((await journey.services.webhooks.startReplay(call)).replay?.id);
  }
  if (operation.tag === 'Webhooks') return shop.fixtures.webhooks[0]?.id ?? 0;
  if (operation.id === 'updateDestination') return shop.fixtures.destinations.linked;
  return firstOf(shop, 'open').id;
}
