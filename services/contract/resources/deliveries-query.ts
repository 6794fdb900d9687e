import { characters } from '../../platform/text.ts';
import { CURSOR_MAX, DELIVERIES_PAGE_DEFAULT, DELIVERIES_PAGE_MAX } from '../limits.ts';
import { parseTime } from '../time.ts';
import { DELIVERY_STATES, type DeliveryState, TRIGGERS, type Trigger } from '../vocabulary.ts';
import { textError } from './fields.ts';

/** Selects deliveries of a webhook, and a page of them. */
export interface DeliveriesQuery {
  readonly state: DeliveryState | undefined;
  readonly trigger: Trigger | undefined;
  /** Deliveries of events at or after this time. */
  readonly from: Date | undefined;
  /** Deliveries of events before this time. */
  readonly to: Date | undefined;
  readonly limit: number;
  /** The cursor of the previous page; empty for the first page. */
  readonly cursor: string;
}

export type DeliveriesQueryResult =
  | { readonly ok: true; readonly value: DeliveriesQuery }
  | { readonly ok: false; readonly field: string; readonly rule: string };

const NAMES = ['state', 'trigger', 'from', 'to', 'limit', 'cursor'] as const;
const LIMIT = /^[1-9]\d{0,2}$/;
const TIME_RULE =
  'must be an RFC 3339 date-time with a UTC offset, such as 2026-07-01T12:00:00+00:00 (a + is sent as %2B)';

/** Parses the query of a webhook's deliveries: each known parameter at most once, and not empty. */
export function readDeliveriesQuery(query: URLSearchParams): DeliveriesQueryResult {
  for (const name of NAMES) {
    const values = query.getAll(name);
    if (values.length > 1) return invalid(name, 'must be given once');
    if (values[0] === '') return invalid(name, 'must not be empty');
    const error = textError(values[0] ?? '');
    if (error !== undefined) return invalid(name, error);
  }
  const parameter = (name: (typeof NAMES)[number]) => query.get(name) ?? undefined;
  const state = DELIVERY_STATES.find((one) => one === parameter('state'));
  if (query.has('state') && !state) return invalid('state', oneOf(DELIVERY_STATES));
  const trigger = TRIGGERS.find((one) => one === parameter('trigger'));
  if (query.has('trigger') && !trigger) return invalid('trigger', oneOf(TRIGGERS));
  const [from, to] = (['from', 'to'] as const).map((name) => parseTime(parameter(name) ?? ''));
  if (query.has('from') && !from) return invalid('from', TIME_RULE);
  if (query.has('to') && !to) return invalid('to', TIME_RULE);
  if (from && to && from >= to) return invalid('to', 'must be after from');
  const limit = limitOf(parameter('limit'));
  if (limit === undefined) {
    return invalid('limit', `must be a whole number from 1 to ${DELIVERIES_PAGE_MAX}`);
  }
  const cursor = parameter('cursor') ?? '';
  if (characters(cursor) > CURSOR_MAX) {
    return invalid('cursor', `must be at most ${CURSOR_MAX} characters`);
  }
  return { ok: true, value: { state, trigger, from, to, limit, cursor } };
}

function limitOf(text: string | undefined): number | undefined {
  if (text === undefined) return DELIVERIES_PAGE_DEFAULT;
  if (!LIMIT.test(text)) return undefined;
  return Number(text) <= DELIVERIES_PAGE_MAX ? Number(text) : undefined;
}

function oneOf(values: readonly string[]): string {
  return `must be one of ${values.join(', ')}`;
}

function invalid(field: string, rule: string): DeliveriesQueryResult {
  return { ok: false, field, rule };
}
