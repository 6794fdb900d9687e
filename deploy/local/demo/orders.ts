import { formatOf } from '../../../gateway/admin/import/format.ts';
import { readInvoices } from '../../../gateway/admin/import/rows.ts';
import { mapInvoice } from '../../../gateway/admin/import/submission.ts';
import type { ImportTarget } from '../../../gateway/admin/import/target.ts';
import type { AnsweredOrder } from '../../../services/commerce/http/order.ts';
import { formatAmount, parseAmount } from '../../../services/platform/values/money.ts';

/** An order of the demo day, as `order.find` answers it, and what all of it costs. */
export interface DayOrder {
  readonly order: AnsweredOrder;
  readonly total: string;
}

/** Added to the ids that an import makes, so that an import and the day do not return the same units. */
const MOVED_BY = 500_000_000_000_000n;

/**
 * Reads the returns of a file as orders: the file has only the units that came back, so these are all units of the
 * order. Each run makes the same orders.
 *
 * @throws Error for a row that the import rejects, too.
 */
export async function readOrders(
  file: string,
  target: Pick<ImportTarget, 'shopId' | 'actor' | 'currency'>,
): Promise<DayOrder[]> {
  const format = await formatOf(file);
  const orders: DayOrder[] = [];
  for await (const invoice of readInvoices(file, format)) {
    const mapped = mapInvoice(invoice, { ...target, returnMethod: 0 }, format);
    if ('errors' in mapped) {
      const [error] = mapped.errors;
      throw new Error(`${file}, line ${error?.line}: ${error?.reason}`);
    }
    const { order, lines = [], customer } = mapped.submission;
    const country = customer?.address?.countryCode;
    const { currency } = target;
    orders.push({
      order: {
        id: moved(order?.providerOrderId),
        name: order?.name ?? '',
        currency,
        presentment_currency: currency,
        ...(country && { shipping_country: country }),
        lines: lines.map((line) => ({
          line_item_id: moved(line.providerLineItemId),
          title: line.title ?? '',
          sku: line.sku ?? '',
          quantity: line.quantity ?? 0,
          returnable: line.quantity ?? 0,
          paid: { total: both(line.price?.shop) },
        })),
      },
      total: formatAmount(
        lines.reduce((sum, { price }) => sum + minor(price?.shop, currency), 0n),
        currency,
      ),
    });
  }
  return orders;
}

const moved = (id = 0n) => Number(id + MOVED_BY);
const both = (amount = '0') => ({ shop: amount, presentment: amount });
const minor = (amount = '0', currency: string) => parseAmount('price', amount, currency);
