import {
  Ineligibility_Code as Code,
  type ItemSelector,
  type Policy,
  type ReturnWindow,
  ReturnWindow_Start as Start,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { Outcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { LineKind, OrderFacts } from '../../commerce/provider.ts';
import { normalForm } from '../../platform/values/text.ts';

// What of an order may be returned, as a policy says. No clock, no database. What the platform does not know passes its
// rule.

/** An order line, and its units. */
export interface JudgedLine {
  readonly id: bigint;
  readonly sku: string;
  readonly productId?: bigint | undefined;
  readonly tags?: readonly string[] | undefined;
  readonly kind?: LineKind | undefined;
  /** Number of ordered units. */
  readonly quantity: number;
  /** Number of units that were shipped; absent when unknown. */
  readonly shipped?: number | undefined;
  /** Number of units that may come back if the policy allows it. */
  readonly returnable: number;
  /** Units in returns that are open or in review, in closed ones, and refunded at the platform for no return. */
  readonly inOpenReturns: number;
  readonly returned: number;
  readonly refundedThere: number;
}

/** What may be done with an order line. */
export interface LineVerdict {
  readonly id: bigint;
  /** Number of units that may be returned. */
  readonly returnable: number;
  /** Absent when the window has no end. */
  readonly windowEndsAt?: Date | undefined;
  readonly outcomes: readonly Outcome[];
  /** Why not all ordered units may be returned: first the reasons that are about all units. Empty when they may. */
  readonly reasons: readonly Code[];
}

/** The outcomes that a submission can have. A policy without outcomes offers all. */
const OUTCOMES = [Outcome.REFUND, Outcome.EXCHANGE, Outcome.CREDIT] as const;

const DAY_MS = 86_400_000;

/** Judges each line of an order by a policy. @param now the time of the request. */
export function judge(
  policy: Policy,
  order: OrderFacts & { readonly lines: readonly JudgedLine[] },
  now: Date,
): LineVerdict[] {
  const isServed = servesCountry(policy, order.shippingCountry);
  return order.lines.map((line) => {
    const exception = policy.exceptions.find(({ items }) => selects(items, line));
    const windowEndsAt = endOf(exception?.window ?? policy.window, order);
    const ofAll = [
      ...(order.cancelledAt ? [Code.ORDER_CANCELLED] : []),
      ...(line.kind !== undefined && line.kind !== 'product' ? [Code.NOT_A_PRODUCT] : []),
      ...(isServed ? [] : [Code.COUNTRY_NOT_SERVED]),
      ...(selects(policy.finalSale, line) ? [Code.FINAL_SALE] : []),
      ...(windowEndsAt && windowEndsAt < now ? [Code.WINDOW_ENDED] : []),
    ];
    const { id, returnable } = line;
    return {
      id,
      returnable: ofAll.length > 0 ? 0 : returnable,
      windowEndsAt,
      outcomes: offered(exception?.outcomes.length ? exception.outcomes : policy.outcomes),
      reasons: [...ofAll, ...reasonsOfUnits(line)],
    };
  });
}

/** Why some units cannot come back, whatever the policy says. */
function reasonsOfUnits(line: JudgedLine): Code[] {
  const { quantity, shipped = quantity, returnable, refundedThere } = line;
  const counted = returnable + line.inOpenReturns + line.returned + refundedThere;
  // Units that the platform keeps back for no other reason were not shipped either.
  const isUnshipped = shipped < quantity || (counted < quantity && line.kind !== 'gift_card');
  return [
    ...(line.inOpenReturns > 0 ? [Code.IN_OPEN_RETURN] : []),
    ...(line.returned > 0 ? [Code.ALREADY_RETURNED] : []),
    ...(refundedThere > 0 ? [Code.REFUNDED] : []),
    ...(isUnshipped && returnable < quantity && isGoods(line) ? [Code.NOT_FULFILLED] : []),
  ];
}

const isGoods = ({ kind = 'product' }: JudgedLine): boolean => kind === 'product';

function servesCountry({ countries }: Policy, country: string | undefined): boolean {
  return countries.length === 0 || country === undefined || countries.includes(country);
}

/** The outcomes of line items that make an outcome of a return. */
const PARTS: ReadonlyMap<Outcome, readonly Outcome[]> = new Map([
  [Outcome.UPSELL, [Outcome.EXCHANGE]],
  [Outcome.EXCHANGE_REFUND, [Outcome.EXCHANGE, Outcome.REFUND]],
  [Outcome.EXCHANGE_CREDIT, [Outcome.EXCHANGE, Outcome.CREDIT]],
]);

/** Returns the outcomes that a line item may have, in a fixed order: those in the list, and the parts of those. */
export function offered(outcomes: readonly Outcome[]): Outcome[] {
  const parts = new Set(outcomes.flatMap((outcome) => PARTS.get(outcome) ?? [outcome]));
  return OUTCOMES.filter((one) => parts.size === 0 || parts.has(one));
}

/** Whether the outcome of a return is in the list, or everything that it is made of. An empty list offers all outcomes. */
export function isOffered(offers: readonly Outcome[], outcome: Outcome): boolean {
  if (offers.length === 0 || offers.includes(outcome)) return true;
  return PARTS.get(outcome)?.every((part) => offers.includes(part)) ?? false;
}

/** When a window ends; undefined when it has no end, or the platform knows none of the times. */
export function endOf(window: ReturnWindow | undefined, order: OrderFacts): Date | undefined {
  if (window?.days === undefined) return undefined;
  const times = [
    ...(window.from === Start.ORDERED || window.from === Start.FULFILLED
      ? []
      : [order.deliveredAt]),
    ...(window.from === Start.ORDERED ? [] : [order.fulfilledAt]),
    order.orderedAt,
  ];
  const start = times.find((time) => time !== undefined);
  return start && new Date(start.getTime() + window.days * DAY_MS);
}

/** Whether a selector has a line: by its product, its SKU, or a tag. */
export function selects(
  items: ItemSelector | undefined,
  line: Pick<JudgedLine, 'sku' | 'productId' | 'tags'>,
): boolean {
  if (!items) return false;
  const { sku, productId, tags = [] } = line;
  return (
    (productId !== undefined && items.productIds.includes(productId)) ||
    (sku !== '' && items.skus.some((pattern) => fits(normalForm(sku), normalForm(pattern)))) ||
    tags.some((tag) => items.tags.some((one) => normalForm(one) === normalForm(tag)))
  );
}

/** Whether a SKU fits a pattern: it is equal, or has what stands before and after the `*`. */
function fits(sku: string, pattern: string): boolean {
  const at = pattern.indexOf('*');
  if (at < 0) return sku === pattern;
  const [before, after] = [pattern.slice(0, at), pattern.slice(at + 1)];
  return sku.length >= pattern.length - 1 && sku.startsWith(before) && sku.endsWith(after);
}

const SENTENCES: Readonly<Partial<Record<Code, string>>> = {
  [Code.WINDOW_ENDED]: 'The time to return it has ended.',
  [Code.NOT_FULFILLED]: 'It was not shipped yet.',
  [Code.FINAL_SALE]: 'It was a final sale.',
  [Code.COUNTRY_NOT_SERVED]: 'Returns from the country of this order are not possible.',
  [Code.ALREADY_RETURNED]: 'It was returned already.',
  [Code.IN_OPEN_RETURN]: 'It is part of another return.',
  [Code.REFUNDED]: 'It was refunded already.',
  [Code.NOT_A_PRODUCT]: 'Tips, gift cards and services cannot be returned.',
  [Code.ORDER_CANCELLED]: 'The order was cancelled.',
};

/** A sentence about a reason, for people. */
export function sentenceOf(code: Code): string {
  return SENTENCES[code] ?? 'It cannot be returned.';
}
