import type {
  Arrival,
  ListExpectedResponse,
} from '../../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import { ReturnStateSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ArrivalObject, ExpectedPage } from '../resources/arrival.ts';
import { RETURN_STATES } from '../vocabulary.ts';
import { idNumber, textOrNull, word } from './values.ts';

/** An arrival as the response of record arrival has it. */
export function arrivalView(arrival: Arrival): ArrivalObject {
  const { id, returnId, returnState, items, unexpected } = arrival;
  const excess = new Map(unexpected.map((item) => [item.lineItemId, item.quantity]));
  return {
    arrival_id: Number(id),
    return_id: Number(returnId),
    return_state: word(ReturnStateSchema, returnState, RETURN_STATES),
    items: items.map((item) => ({
      line_item_id: Number(item.lineItemId),
      quantity: item.quantity,
      damaged_quantity: item.damagedQuantity,
      unexpected_quantity: excess.get(item.lineItemId) ?? 0,
      note: textOrNull(item.note),
    })),
  };
}

/** A page of expected line items. */
export function expectedPageView({
  lines,
  nextCursor,
}: Pick<ListExpectedResponse, 'lines' | 'nextCursor'>): ExpectedPage {
  return {
    expected: lines.map((line) => ({
      return_id: Number(line.returnId),
      line_item_id: Number(line.lineItemId),
      order_name: line.orderName,
      sku: textOrNull(line.sku),
      barcode: textOrNull(line.barcode),
      title: line.title,
      expected_quantity: line.expectedQuantity,
      arrived_quantity: line.arrivedQuantity,
      destination_id: idNumber(line.destinationId),
      tracking_number: textOrNull(line.trackingNumber),
    })),
    next_cursor: textOrNull(nextCursor),
  };
}
