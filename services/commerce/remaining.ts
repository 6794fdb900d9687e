import type { Queryable } from '../platform/postgres/postgres.ts';
import {
  type LineValue,
  minus,
  netOf,
  plus,
  shareOf,
  type Units,
  ZERO_VALUE,
} from '../platform/values/line-value.ts';
import { type Both, type Currencies, inBoth, minorOf } from '../platform/values/money.ts';
import type { FoundLine, FoundOrder, RefundThere } from './provider.ts';

/** The units of one order line in returns of this service, in one pair of currencies. */
interface ElsewhereRow {
  /** The provider's id of the order line; 0 for the credited shipping, which is of no line and has no units. */
  readonly id: bigint;
  readonly units: number;
  /** How many of them are in returns that are open or in review. */
  readonly open: number;
  readonly currency: string;
  readonly presentment_currency: string;
  /** Keys, and ids at the provider, of their refunds that it has made; null for units whose refund it has not made. */
  readonly keys: readonly string[] | null;
  /** Decimal texts: the price, discount, tax and shipping in both currencies. */
  readonly shop: readonly [string, string, string, string];
  readonly presentment: readonly [string, string, string, string];
}

/** What the returns of this service already have of an order: its goods, and refunded and credited shipping. */
export type Elsewhere = readonly ElsewhereRow[];

/** An order line, with what is left of it for another return. */
export interface LineLeft extends FoundLine {
  /** Number of units that may come back at the provider, which does not know the other returns that are open. */
  readonly returnableThere: number;
  /** Number of units that are left. It includes units that may not come back, such as unshipped ones. */
  readonly unitsLeft: number;
  /** Number of units that are in returns of this service that are open or in review, and in closed ones. */
  readonly unitsOpen: number;
  readonly unitsClosed: number;
  /** Number of units that were refunded at the provider, and not by this service. */
  readonly unitsThere: number;
  /** What was refunded of the line at the provider, and not by this service. */
  readonly valueThere: Both<LineValue>;
  /** What was paid for the units that are left. */
  readonly valueLeft: Both<LineValue>;
}

/**
 * SQL: the units of a line item that count for other returns of its order line. A closed return counts the units that it
 * refunded.
 */
export function unitsIn(line: string, ofReturn: string): string {
  return `case when ${ofReturn}.state = 'closed' then coalesce(${line}.refunded_quantity, ${line}.quantity)
               else ${line}.quantity end`;
}

/**
 * Reads the units and amounts of an order in returns of this service, except cancelled and expired ones. A closed return
 * has the units that it refunded.
 *
 * @param o.askedAt when the provider was asked for the order, by the clock of PostgreSQL. A refund that was recorded
 *   later may not be in its numbers, so it does not count as made. A provider that lists its refunds shows it by itself.
 */
export async function elsewhereOf(
  db: Queryable,
  o: { readonly shopId: bigint; readonly order: FoundOrder; readonly askedAt: string },
): Promise<Elsewhere> {
  const listsRefunds = o.order.lines.some(({ refunds }) => refunds !== undefined);
  const { rows } = await db.query<ElsewhereRow>({
    // Planned at each call: a plan that a connection keeps from when the tables were almost empty reads all of the shop.
    text: `
with theirs as materialized (
  select r.shop_id, r.id, r.state, r.currency, r.presentment_currency, r.credit_shipping,
         r.presentment_credit_shipping
    from returns r
   where r.shop_id = $1 and r.state not in ('cancelled', 'expired')
     and r.order_id = (select id from orders where shop_id = $1 and provider_order_id = $2))
select l.provider_line_item_id as id,
       sum(${unitsIn('l', 'r')})::int as units,
       coalesce(sum(l.quantity) filter (where r.state in ('open', 'review')), 0)::int as open,
       r.currency, r.presentment_currency, array_agg(distinct f.key) filter (where f.key is not null)
         || array_agg(distinct f.provider_id) filter (where f.key is not null) as keys,
       array[sum(l.price), sum(l.discount), sum(l.tax), sum(l.refund_shipping)]::text[] as shop,
       array[sum(l.presentment_price), sum(l.presentment_discount), sum(l.presentment_tax),
             sum(l.presentment_refund_shipping)]::text[] as presentment
  from theirs r
  join return_lines l on l.shop_id = r.shop_id and l.return_id = r.id and l.removed_at is null
  left join processing_outcomes f
    on f.shop_id = r.shop_id and f.return_id = r.id and f.kind = 'refund' and f.done_at <= $3
 group by l.provider_line_item_id, r.currency, r.presentment_currency, f.key is not null
union all
select 0, 0, 0, currency, presentment_currency, null,
       array[0, 0, 0, sum(credit_shipping)]::text[],
       array[0, 0, 0, sum(presentment_credit_shipping)]::text[]
  from theirs
 where credit_shipping > 0
 group by currency, presentment_currency`,
    values: [o.shopId, o.order.id, listsRefunds ? 'infinity' : o.askedAt],
  });
  return rows;
}

/**
 * Returns the lines of an order with what is left of them: what was paid, without the refunds at the provider that this
 * service did not request, and without the returns of this service. Refunds that this service requested are in its
 * returns, with their exact amounts. `returnable` is without the units in returns of this service, too.
 */
export function linesLeft({ lines, currencies }: FoundOrder, elsewhere: Elsewhere): LineLeft[] {
  return lines.map((line) => lineLeft(line, currencies, elsewhere));
}

function lineLeft(line: FoundLine, currencies: Currencies, elsewhere: Elsewhere): LineLeft {
  const here = elsewhere.filter(({ id }) => id === line.id);
  const made = here.filter(({ keys }) => keys !== null);
  const madeThere = refundsMade(line, { made, currencies });
  const unitsHere = unitsOf(here);
  const openUnits = here.reduce((sum, { open }) => sum + open, 0);
  const unitsThere = Math.max(0, line.quantity - line.left.units - madeThere.units);
  const unitsLeft = Math.max(0, line.quantity - unitsThere - unitsHere);
  const there = inBoth((of) => {
    const [paid, total] = [line.paid[of], line.left.totals?.[of]];
    return total === undefined
      ? shareOf({ units: line.quantity, value: paid }, unitsThere)
      : partOf(paid, netOf(paid) - total - madeThere.value[of]);
  });
  // Providers refund in the presentment currency. A difference in the shop's currency alone is rounding.
  const isRounding = line.left.totals !== undefined && netOf(there.presentment) === 0n;
  const side = (of: keyof Both<unknown>): LineValue => {
    const paid = line.paid[of];
    const whole = { units: line.quantity, value: paid };
    const gone = isRounding ? ZERO_VALUE : there[of];
    return minus(minus(paid, gone), sumOf(here, { of, currencies, whole }));
  };
  return {
    ...line,
    returnableThere: line.returnable,
    returnable: Math.max(0, Math.min(unitsLeft, line.returnable + madeThere.units - unitsHere)),
    unitsLeft,
    unitsOpen: openUnits,
    unitsClosed: unitsHere - openUnits,
    unitsThere,
    valueThere: there,
    valueLeft: inBoth(side),
  };
}

/** Returns the refunds that are in the provider's numbers of a line, and in returns of this service. */
function refundsMade(
  { refunds, paid, quantity }: FoundLine,
  { made, currencies }: { readonly made: Elsewhere; readonly currencies: Currencies },
): Units<Both<bigint>> {
  if (refunds) {
    const own = refunds.filter(isOwn(made));
    const value = inBoth((of) => own.reduce((sum, one) => sum + one.value[of], 0n));
    return { units: unitsOf(own), value };
  }
  const value = inBoth((of) =>
    netOf(sumOf(made, { of, currencies, whole: { units: quantity, value: paid[of] } })),
  );
  return { units: unitsOf(made), value };
}

/** A person may have made the refund of a return, without its key (`commerce settle`). Then its id is known. */
function isOwn(elsewhere: Elsewhere): (refund: RefundThere) => boolean {
  const known = new Set(elsewhere.flatMap((row) => row.keys ?? []));
  return ({ id, key }) => known.has(key) || known.has(id);
}

const unitsOf = (of: readonly { readonly units: number }[]) =>
  of.reduce((sum, { units }) => sum + units, 0);

/** Adds up the values of returned units. Units in another currency than the order count with their share. */
function sumOf(
  rows: Elsewhere,
  o: {
    readonly of: keyof Both<unknown>;
    readonly currencies: Currencies;
    readonly whole: Units<LineValue>;
  },
): LineValue {
  const values = rows.map((row) => {
    const amounts = amountsIn(row, o.of, o.currencies);
    if (!amounts) return shareOf(o.whole, row.units);
    const [price = 0n, discount = 0n, tax = 0n] = amounts;
    return { price, discount, tax };
  });
  return values.reduce(plus, ZERO_VALUE);
}

/** The amounts of a row in minor units; undefined when they are in another currency than the order. */
function amountsIn(
  row: ElsewhereRow,
  of: keyof Both<unknown>,
  currencies: Currencies,
): bigint[] | undefined {
  const currency = of === 'shop' ? row.currency : row.presentment_currency;
  return currency === currencies[of] ? row[of].map((text) => minorOf(text, currency)) : undefined;
}

/**
 * Returns what the merchant has not refunded of the order's shipping; undefined when unknown. Refunds of returns of
 * this service do not count, because the returns say what they refund.
 */
export function shippingThere(
  { shipping }: FoundOrder,
  elsewhere: Elsewhere,
): Both<bigint> | undefined {
  const own = shipping?.refunds?.filter(isOwn(elsewhere)) ?? [];
  return (
    shipping &&
    inBoth((side) => own.reduce((left, { value }) => left + value[side], shipping.left[side]))
  );
}

/** Returns what is left of the order's shipping: neither refunded by the merchant, nor in returns of this service. */
export function shippingLeft(order: FoundOrder, elsewhere: Elsewhere): Both<bigint> {
  const there = shippingThere(order, elsewhere);
  return inBoth((side) => {
    const here = elsewhere.map((row) => amountsIn(row, side, order.currencies)?.[3] ?? 0n);
    const left = here.reduce((rest, amount) => rest - amount, there?.[side] ?? 0n);
    return left > 0n ? left : 0n;
  });
}

/** Returns what the merchant refunded for no line and no shipping, such as for goodwill. */
export function goodwillOf({ otherRefunds = [] }: FoundOrder, elsewhere: Elsewhere): Both<bigint> {
  const others = otherRefunds.filter(({ id, key }) => key === '' && !isOwn(elsewhere)({ id, key }));
  return inBoth((side) => others.reduce((sum, { value }) => sum + value[side], 0n));
}

/** Returns what is gone of the money of the order for no line and no shipping: refunded for goodwill, or never paid. */
function goneOf(order: FoundOrder, elsewhere: Elsewhere): Both<bigint> {
  const goodwill = goodwillOf(order, elsewhere);
  return inBoth((side) => goodwill[side] + (order.unpaid?.[side] ?? 0n));
}

/**
 * Returns what is left of the money of the order, when the merchant refunded some of it that is for no line and no
 * shipping, or the shopper has not paid all of it. Undefined otherwise: then the lines say what is left.
 */
export function moneyLeft(order: FoundOrder, elsewhere: Elsewhere): Both<bigint> | undefined {
  const gone = goneOf(order, elsewhere);
  if (gone.shop === 0n && gone.presentment === 0n) return undefined;
  const lines = linesLeft(order, elsewhere);
  const shipping = shippingLeft(order, elsewhere);
  return inBoth((side) => {
    const whole = lines.reduce((sum, line) => sum + netOf(line.valueLeft[side]), shipping[side]);
    return whole - gone[side];
  });
}

/**
 * Returns the net value that all returns of this service may have of an order together: that of the goods which are left,
 * and what its returns have. Money that is gone for no line is taken from the shipping first.
 */
export function goodsLimitOf(order: FoundOrder, elsewhere: Elsewhere): Both<bigint> {
  const gone = goneOf(order, elsewhere);
  const shipping = shippingLeft(order, elsewhere);
  const lines = linesLeft(order, elsewhere);
  return inBoth((side) => {
    const left = lines.reduce((sum, line) => sum + netOf(line.valueLeft[side]), 0n);
    const here = elsewhere.reduce((sum, row) => {
      const [price = 0n, discount = 0n, tax = 0n] = amountsIn(row, side, order.currencies) ?? [];
      return sum + price - discount + tax;
    }, 0n);
    const ofGoods = gone[side] - shipping[side];
    const limit = left + here - (ofGoods > 0n ? ofGoods : 0n);
    return limit > 0n ? limit : 0n;
  });
}

/**
 * Returns what all returns of this service may pay of an order together: what was paid for it, without the refunds at the
 * provider that this service did not request. What is unknown of the shipping is not limited.
 */
export function moneyLimitOf(order: FoundOrder, elsewhere: Elsewhere): Both<bigint> {
  const gone = goneOf(order, elsewhere);
  const lines = linesLeft(order, elsewhere);
  const there = shippingThere(order, elsewhere);
  return inBoth((side) => {
    const left = lines.reduce((sum, line) => sum + netOf(line.valueLeft[side]), 0n);
    const limit = elsewhere.reduce(
      (sum, row) => {
        const [price = 0n, discount = 0n, tax = 0n, shipping = 0n] =
          amountsIn(row, side, order.currencies) ?? [];
        return sum + price - discount + tax + (there ? 0n : shipping);
      },
      left + (there?.[side] ?? 0n) - gone[side],
    );
    return limit > 0n ? limit : 0n;
  });
}

/** Returns the part of a value that has this total. */
function partOf(value: LineValue, total: bigint): LineValue {
  const whole = netOf(value);
  if (total <= 0n || whole <= 0n) return ZERO_VALUE;
  const part = (minor: bigint) => (minor * total) / whole;
  const [price, tax] = [part(value.price), part(value.tax)];
  return { price, tax, discount: price + tax - total };
}
