import type { Is } from './faults.ts';

/** The order that an endpoint without a mistake finds. */
const FOUND_ORDER = {
  id: 445,
  name: '#1001',
  currency: 'GBP',
  presentment_currency: 'JPY',
  lines: [
    {
      line_item_id: 9001,
      title: 'Mug',
      sku: 'MUG-1',
      quantity: 2,
      returnable: 1,
      paid: {
        gross: { shop: '18.00', presentment: '2790' },
        tax: { shop: '2.00', presentment: '310' },
      },
      unit_price: { shop: '10.00', presentment: '1550' },
    },
  ],
} as const;

/** The answer to `order.find`. */
export function orderOf(
  is: Is,
  { name = '', id }: { readonly name?: string; readonly id?: number },
): readonly [status: number, json: object] {
  if (is('rejects the look-up of orders')) return [422, { error: { message: 'not looked up' } }];
  const isFound =
    name === FOUND_ORDER.name ||
    id === FOUND_ORDER.id ||
    is('finds an order for every name') ||
    (is('finds orders by the beginning of their name') &&
      name !== '' &&
      FOUND_ORDER.name.startsWith(name));
  if (!isFound) {
    const isMissing = is('answers an unknown order with 404');
    return isMissing ? [404, { error: { message: 'none' } }] : [200, { order: null }];
  }
  const [line] = FOUND_ORDER.lines;
  const presentment = is('answers orders with two decimals') ? '1550.50' : '1550';
  const returnable = is('answers more returnable units than ordered') ? 3 : line.returnable;
  const shop = is('answers a price that contradicts the totals') ? '9.00' : '10.00';
  const total = is('answers totals without the tax')
    ? { shop: '18.01', presentment: '2790' }
    : { shop: '20.00', presentment: '3100' };
  const paid = { ...line.paid, total };
  const lines = [{ ...line, returnable, paid, unit_price: { shop, presentment } }];
  const isOther = id !== undefined && is('finds another order by its id');
  const times = is('answers times that contradict each other')
    ? { ordered_at: '2026-11-02T10:00:00Z', delivered_at: '2026-11-01T10:00:00Z' }
    : {};
  return [200, { order: { ...FOUND_ORDER, ...times, ...(isOther && { id: 446 }), lines } }];
}
