import type { z } from 'zod';
import type { FoundOrder } from '../provider.ts';
import type { orderAnswer } from './protocol.ts';

type Answered = NonNullable<z.infer<typeof orderAnswer>['order']>;

/** Converts the order in an answer to `order.find`. */
export function foundOrder(order: Answered): FoundOrder {
  return {
    id: BigInt(order.id),
    name: order.name,
    currencies: { shop: order.currency, presentment: order.presentment_currency },
    lines: order.lines.map((line) => ({
      id: BigInt(line.line_item_id),
      title: line.title,
      sku: line.sku ?? '',
      productId: line.product_id ? BigInt(line.product_id) : undefined,
      variantId: line.variant_id ? BigInt(line.variant_id) : undefined,
      quantity: line.quantity,
      returnable: line.returnable,
      unitPrice: line.unit_price,
    })),
  };
}
