import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import {
  DispositionOutcome,
  type LineItem,
  type RestockItemSchema,
  type Return,
  ReturnMethod,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { RestockLine } from '../../commerce/provider.ts';
import { parseId } from '../../platform/values/ids.ts';
import { type Destinations, destinationOf } from '../destinations.ts';
import type { Job } from './jobs.ts';

/**
 * Returns the commerce provider's location for the destination of the return. It is 0 when the return has no
 * destination, or the destination has no location.
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
 * Returns the line items to restock: their disposition is back_to_stock, or they have none. Units that another
 * disposition is about are left out. Goods that the shopper keeps are not restocked. Lines without a location of their
 * own get the location 0, see {@link atLocation}.
 */
export function restockLines(details: Return): RestockLine[] {
  if (details.returnMethod === ReturnMethod.KEEP_ITEM) return [];
  return details.lineItems.flatMap((line) => {
    const quantity = unitsForStock(line);
    if (quantity === 0) return [];
    return {
      lineItemId: line.lineItemId,
      providerLineItemId: line.providerLineItemId,
      variantId: line.variantId,
      sku: line.sku,
      quantity,
      locationId: parseId(line.providerRestockLocationId) ?? 0n,
    };
  });
}

/** Returns the lines, with this location for those that have none of their own. */
export function atLocation(lines: readonly RestockLine[], location: bigint): RestockLine[] {
  return lines.map((line) => (line.locationId === 0n ? { ...line, locationId: location } : line));
}

/** Returns the {@link restockLines} of a return in the form of `restock.requested`. */
export function restockItems(
  details: Return,
  location: bigint,
): MessageInitShape<typeof RestockItemSchema>[] {
  return atLocation(restockLines(details), location).map(
    ({ lineItemId, locationId, variantId, quantity }) => ({
      lineItemId,
      locationId,
      variantId,
      quantity,
    }),
  );
}

function unitsForStock({ disposition, quantity }: LineItem): number {
  if (!disposition || disposition.outcome === DispositionOutcome.BACK_TO_STOCK) return quantity;
  return Math.max(0, quantity - (disposition.quantity ?? quantity));
}
