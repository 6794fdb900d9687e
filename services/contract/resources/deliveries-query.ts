import { parseTime } from '../time.ts';
import { DELIVERY_STATES, type DeliveryState, TRIGGERS, type Trigger } from '../vocabulary.ts';
import { type Page, pageOf, textOf } from './page-query.ts';

/** Selects deliveries of a webhook, and a page of them. */
export interface DeliveriesQuery extends Page {
  readonly state: DeliveryState | undefined;
  readonly trigger: Trigger | undefined;
  /** Deliveries of events at or after this time. */
  readonly from: Date | undefined;
  /** Deliveries of events before this time. */
  readonly to: Date | undefined;
}

export type DeliveriesQueryResult =
  | { readonly ok: true; readonly value: DeliveriesQuery }
  | { readonly ok: false; readonly field: string; readonly rule: string };

const FILTERS = ['state', 'trigger', 'from', 'to'] as const;
const TIME_RULE =
  'must be an RFC 3339 date-time with a UTC offset, such as 2026-07-01T12:00:00+00:00 (a + is sent as %2B)';

/** Parses the query of a webhook's deliveries: each known parameter at most once, and not empty. */
export function readDeliveriesQuery(query: URLSearchParams): DeliveriesQueryResult {
  for (const name of FILTERS) {
    const text = textOf(query, name);
    if (!text.ok) return text;
  }
  const parameter = (name: (typeof FILTERS)[number]) => query.get(name) ?? undefined;
  const state = DELIVERY_STATES.find((one) => one === parameter('state'));
  if (query.has('state') && !state) return invalid('state', oneOf(DELIVERY_STATES));
  const trigger = TRIGGERS.find((one) => one === parameter('trigger'));
  if (query.has('trigger') && !trigger) return invalid('trigger', oneOf(TRIGGERS));
  const [from, to] = (['from', 'to'] as const).map((name) => parseTime(parameter(name) ?? ''));
  if (query.has('from') && !from) return invalid('from', TIME_RULE);
  if (query.has('to') && !to) return invalid('to', TIME_RULE);
  if (from && to && from >= to) return invalid('to', 'must be after from');
  const page = pageOf(query);
  return page.ok ? { ok: true, value: { state, trigger, from, to, ...page.value } } : page;
}

function oneOf(values: readonly string[]): string {
  return `must be one of ${values.join(', ')}`;
}

function invalid(field: string, rule: string): DeliveriesQueryResult {
  return { ok: false, field, rule };
}
