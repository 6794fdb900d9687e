import { z } from 'zod';
import {
  DeliveryStateSchema,
  type DeliveryState as StateMessage,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { TOPICS, TRIGGERS } from '../../contract/vocabulary.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { param, raw, type Sql, sql } from '../../platform/postgres/sql.ts';
import { enumText } from '../../platform/values/enum-text.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { MAX_ID } from '../../platform/values/ids.ts';
import { parseInput, text, time } from '../../platform/values/input.ts';
import { URL_MAX } from '../../platform/values/text.ts';
import { requireOneOf, subscriptionNotFound } from '../subscriptions/subscription.ts';
import type { DeliveryState } from './delivery.ts';

/** Selects deliveries of a shop. All fields must match. */
export interface Filter {
  readonly shopId: bigint;
  /** Only deliveries of these subscriptions; null for all subscriptions. */
  readonly subscriptionIds: readonly bigint[] | null;
  /** An empty `topic`, `trigger` or `states` matches everything. */
  readonly topic: string;
  readonly trigger: string;
  readonly states: readonly DeliveryState[];
  readonly returnId: bigint | null;
  /** Only deliveries that this replay or backfill has queued; null for all deliveries. */
  readonly jobId: bigint | null;
  /** The first id of the period, and the first id after the period. */
  readonly firstId: string;
  readonly endId: string;
}

const stateText = enumText(DeliveryStateSchema);

/** Returns the first id of a millisecond. The id of a delivery begins with the time of its event. */
export function idAt(time: Date): string {
  const ms = Math.min(Math.max(time.getTime(), 0), 2 ** 48 - 1);
  const hex = ms.toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}

const AFTER_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

const anyId = z
  .bigint()
  .refine((value) => value >= 0n && value <= MAX_ID, 'must be an id from 1 to 2^53-1, or 0')
  .transform((value) => value || null);
const shape = z.object({
  subscriptionId: anyId,
  url: text(URL_MAX),
  topic: z.string(),
  trigger: z.string(),
  states: z.array(z.number()).max(10, 'must hold at most 10'),
  from: time.optional(),
  to: time.optional(),
  returnId: anyId,
  jobId: anyId.optional(),
});

export interface FilterInput {
  readonly subscriptionId: bigint;
  readonly url: string;
  readonly topic: string;
  readonly trigger: string;
  readonly states: readonly StateMessage[];
  readonly from?: z.input<typeof time> | undefined;
  readonly to?: z.input<typeof time> | undefined;
  readonly returnId: bigint;
  readonly jobId?: bigint | undefined;
}

/** A valid filter. Its subscriptions have not been looked up yet. */
export type ParsedFilter = Omit<Filter, 'subscriptionIds' | 'shopId'> & {
  readonly subscriptionId: bigint | null;
  readonly url: string;
};

/** Parses a filter. @throws DomainError INVALID_ARGUMENT with the invalid field. */
export function parseFilter(input: FilterInput): ParsedFilter {
  const { from, to, subscriptionId, url, topic, trigger, returnId, ...rest } = parseInput(
    shape,
    input,
  );
  const { jobId = null } = rest;
  if (topic !== '') requireOneOf('topic', topic, TOPICS);
  if (trigger !== '') requireOneOf('trigger', trigger, TRIGGERS);
  if (from && to && from >= to) throw invalidField('to', 'must lie after from');
  if (jobId !== null && returnId !== null) {
    throw invalidField('return_id', 'must be 0 with a replay_id');
  }
  return {
    subscriptionId,
    url,
    topic,
    trigger,
    states: input.states.map(parseState),
    returnId,
    jobId,
    firstId: idAt(from ?? new Date(0)),
    endId: to ? idAt(to) : AFTER_ALL,
  };
}

function parseState(state: StateMessage): DeliveryState {
  const parsed = STATES.get(state);
  if (parsed === undefined) throw invalidField('states', 'must be states of a delivery');
  return parsed;
}

const STATES: ReadonlyMap<StateMessage, DeliveryState> = new Map(
  (['waiting', 'held', 'delivered', 'exhausted', 'expired', 'dropped'] as const).map((state) => [
    stateText.fromText(state),
    state,
  ]),
);

/**
 * Looks up the subscriptions of a filter. Deleted ones are included, because their log is kept.
 *
 * @param o.liveOnly whether a deleted subscription counts as one that does not exist.
 * @throws DomainError NOT_FOUND for a subscription that does not exist.
 */
export async function resolveFilter(
  db: Queryable,
  shopId: bigint,
  parsed: ParsedFilter,
  o: { liveOnly: boolean } = { liveOnly: false },
): Promise<Filter> {
  const { subscriptionId, url, ...rest } = parsed;
  if (subscriptionId === null && url === '') return { shopId, subscriptionIds: null, ...rest };
  const { rows } = await db.query<{ id: bigint; isAtUrl: boolean }>(
    `select s.id, $3 = '' or e.url = $3 as "isAtUrl"
       from subscriptions s join endpoints e on e.shop_id = s.shop_id and e.id = s.endpoint_id
      where s.shop_id = $1 and ($2::bigint is null or s.id = $2)
        and ($2 is not null or e.url_sha256 = sha256(convert_to($3, 'UTF8')))
        and (s.deleted_at is null or not $4)`,
    [shopId, subscriptionId, url, o.liveOnly],
  );
  if (subscriptionId !== null && rows.length === 0) throw subscriptionNotFound(subscriptionId);
  const subscriptionIds = rows.filter(({ isAtUrl }) => isAtUrl).map(({ id }) => id);
  return { shopId, subscriptionIds, ...rest };
}

/**
 * Returns the filter of a list. When the filter has one subscription, the statement of the list checks whether it
 * exists. So only the subscriptions of an address are looked up here.
 *
 * @throws as {@link resolveFilter}, for an address.
 */
export async function filterOfList(
  db: Queryable,
  shopId: bigint,
  parsed: ParsedFilter,
  o: { liveOnly: boolean } = { liveOnly: false },
): Promise<Filter> {
  if (parsed.url !== '') return resolveFilter(db, shopId, parsed, o);
  const { subscriptionId, url: _, ...rest } = parsed;
  return { shopId, subscriptionIds: subscriptionId === null ? null : [subscriptionId], ...rest };
}

/**
 * SQL condition: a delivery matches the states, the trigger and the topic of a filter. @param state SQL of its state.
 */
export function isMatch(
  filter: Pick<Filter, 'states' | 'trigger' | 'topic'>,
  delivery: string,
  state: Sql,
): Sql {
  const of = raw(delivery);
  const states = param(filter.states);
  const trigger = param(filter.trigger);
  const topic = param(filter.topic);
  return sql`(cardinality(${states}::text[]) = 0 or ${state} = any(${states}))
     and (${trigger} = '' or ${of}.trigger = ${trigger}) and (${topic} = '' or ${of}.topic = ${topic})`;
}

/** SQL condition: a delivery `d` is about this return. Always true when `returnId` is null. */
export function isOfReturn(shopId: bigint, returnId: bigint | null): Sql {
  const id = param(returnId);
  return sql`(${id}::bigint is null or exists (
    select from payloads p where p.shop_id = ${shopId} and p.id = d.payload_id and p.return_id = ${id}))`;
}
