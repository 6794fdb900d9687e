import type { Operation } from '../../../services/contract/operation.ts';
import { callIn, firstOf, type Journey } from './journey.ts';

/**
 * The id of an object of the other shop that an operation could name in its path or query.
 *
 * @throws for an operation on a kind of object that this function does not know.
 */
export async function foreignIdOf(
  { stack, services }: Journey,
  { path }: Pick<Operation, 'path'>,
): Promise<number | string> {
  const shop = stack.otherShop;
  const [, kind] = path.split('/');
  switch (kind) {
    case 'webhook-replays': {
      const filter = { returnId: 987_654_321n };
      const call = { ...callIn(shop), idempotencyKey: 'foreign', filter };
      return Number((await services.webhooks.startReplay(call)).replay?.id);
    }
    case 'webhooks':
      return known(shop.fixtures.webhooks[0]?.id);
    case 'destinations':
      return shop.fixtures.destinations.linked;
    case 'returns':
    case 'warehouse':
      return firstOf(shop, 'open').id;
    case 'labels': {
      const returnIds = [BigInt(firstOf(shop, 'two_labels').id)];
      const { returns } = await services.returns.getReturns({ ...callIn(shop), returnIds });
      return known(Number(returns[0]?.labels[0]?.id ?? 0n));
    }
    case 'cart':
      return known(shop.fixtures.carts[0]);
    default:
      throw new Error(`which object of the other shop does ${path} name?`);
  }
}

function known<T extends number | string>(id: T | undefined): T {
  if (!id) throw new Error('the other shop has no such object');
  return id;
}
