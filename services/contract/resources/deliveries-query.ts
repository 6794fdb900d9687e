import { characters } from '../../platform/text.ts';
import { CURSOR_MAX, DELIVERIES_PAGE_DEFAULT, DELIVERIES_PAGE_MAX } from '../limits.ts';
import { parseTime } from '../time.ts';
import { DELIVERY_STATES, type DeliveryState, TRIGGERS, type Trigger } from '../vocabulary.ts';
import { textFault } from './fields.ts';

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

/** Reads the query of a webhook's deliveries: each known parameter at most once and not empty. */
export function readDeliveriesQuery(query: URLSearchParams): DeliveriesQueryResult {
  for (const name of NAMES) {
    const values = query.getAll(name);
    if (values.length > 1) return refused(name, 'must be given once');
    if (values[0] === '') return refused(name, 'must not be empty');
    const fault = textFault(values[0] ?? '');
    if (fault !== undefined) return refused(name, fault);
  }
  const given = (name: (typeof NAMES)[number]) => query.get(name) ?? undefined;
  const state = DELIVERY_STATES.find((one) => one === given('state'));
  if (query.has('state') && !state) return refused('state', oneOf(DELIVERY_STATES));
  const trigger = TRIGGERS.find((one) => one === given('trigger'));
  if (query.has('trigger') && !trigger) return refused('trigger', oneOf(TRIGGERS));
  const [from, to] = (['from', 'to'] as const).map((name) => parseTime(given(name) ?? ''));
  if (query.has('from') && !from) return refused('from', TIME_RULE);
  if (query.has('to') && !to) return refused('to', TIME_RULE);
  if (from && to && from >= to) return refused('to', 'must lie after from');
  const limit = limitOf(given('limit'));
  if (limit === undefined) {
    return refused('limit', `must be a whole number from 1 to ${DELIVERIES_PAGE_MAX}`);
  }
  const cursor = given('cursor') ?? '';
  if (characters(cursor) > CURSOR_MAX) {
    return refused('cursor', `must be at most ${CURSOR_MAX} characters`);
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

function refused(field: string, rule: string): DeliveriesQueryResult {
  return { ok: false, field, rule };
}
