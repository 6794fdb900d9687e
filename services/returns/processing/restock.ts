import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import {
  DispositionOutcome,
  type LineItem,
  type RestockItemSchema,
  type Return,
  ReturnMethod,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { parseId } from '../../platform/ids.ts';
import { type Destinations, destinationOf } from '../destinations.ts';
import type { Job } from './jobs.ts';

/**
 * The commerce provider's location of the return's destination; 0 when the return has no destination, or the
 * destination has no location.
 *
 * @throws ConnectError when the destinations service does not respond.
 */
export async function locationOf(
  destinations: Destinations,
  job: Job,
  details: Return,
): Promise<bigint> {
  try {
    const destination = await destinationOf(destinations, job, details.destinationId);
    return destination?.providerLocationId ?? 0n;
  } catch (error) {
    if (error instanceof ConnectError && error.code === Code.NotFound) return 0n;
    throw error;
  }
}

/**
 * The line items to restock: their disposition is back_to_stock, or they have none. A line's own location is used before
 * that of the destination. Goods that the shopper keeps are not restocked.
 */
export function restockItems(
  details: Return,
  location: bigint,
): MessageInitShape<typeof RestockItemSchema>[] {
  if (details.returnMethod === ReturnMethod.KEEP_ITEM) return [];
  return details.lineItems.filter(isForStock).map((line) => ({
    lineItemId: line.lineItemId,
    locationId: parseId(line.providerRestockLocationId) ?? location,
    variantId: line.variantId,
    quantity: line.quantity,
  }));
}

function isForStock(line: LineItem): boolean {
  const outcome = line.disposition?.outcome;
  return outcome === undefined || outcome === DispositionOutcome.BACK_TO_STOCK;
}
