import { z } from 'zod';
import { parseId } from '../../platform/values/ids.ts';
import { URL_MAX } from '../../platform/values/text.ts';
import {
  DELIVERY_STATES,
  REPLAY_KINDS,
  REPLAY_STATES,
  TOPICS,
  TRIGGERS,
  UNREPLAYABLE_REASONS,
} from '../vocabulary.ts';
import { choice, dateTime, id, ownBound, text, typed } from './fields.ts';
import { InvalidParameter, type Page, parametersIn, type QueryResult, readQuery } from './query.ts';
import { id as jobId, means, nullableId, nullableText, time } from './response-fields.ts';

/** Replays by filter and backfills, as jobs: an addition to the interface. */

const only = (what: string) => ({ description: `Only deliveries ${what}; of all when absent` });

/** The fields that a backfill does not have, because its webhook determines them. */
const REPLAY_ONLY = ['url', 'topic', 'trigger', 'states', 'return_id'] as const;

export const replayBody = z
  .object({
    kind: choice(REPLAY_KINDS).nullish().meta({
      description:
        '`replay` sends ended deliveries again; `backfill` sends stored events that one webhook did not get, from before it was created, too. `replay` when absent',
    }),
    webhook_id: id()
      .nullish()
      .meta({ description: 'Only deliveries of this webhook. Required for a backfill' }),
    url: text({ max: URL_MAX, own: true })
      .nullish()
      .meta(only('of webhooks that deliver to this address now')),
    topic: choice(TOPICS).nullish().meta(only('of this topic')),
    trigger: choice(TRIGGERS).nullish().meta(only('of this trigger')),
    states: z
      .array(choice(DELIVERY_STATES), { error: typed('a list') })
      .max(DELIVERY_STATES.length, { error: `must have at most ${DELIVERY_STATES.length} entries` })
      .meta(ownBound)
      .nullish()
      .meta({ description: 'Only deliveries in one of these states; all when absent or empty' }),
    return_id: id().nullish().meta({ description: 'Only deliveries about this return' }),
    from: dateTime().nullish().meta({
      description:
        'Events at or after this time. Required for a replay; a backfill begins with the oldest stored event when absent',
    }),
    to: dateTime()
      .nullish()
      .meta({ description: 'Events before this time; up to now when absent' }),
  })
  .superRefine((value, context) => {
    for (const { field, message } of replayFaults(value)) {
      context.addIssue({ code: 'custom', path: [field], message });
    }
  })
  .meta({ id: 'WebhookReplayBody' });
export type ReplayBody = z.infer<typeof replayBody>;

interface Combined {
  readonly kind?: string | null | undefined;
  readonly webhook_id?: number | null | undefined;
  readonly from?: Date | null | undefined;
  readonly to?: Date | null | undefined;
  readonly [other: string]: unknown;
}

/** Checks fields that depend on one another. Returns the field and the rule of each fault. */
export function replayFaults({ kind, webhook_id, from, to, ...rest }: Combined) {
  const faults: { readonly field: string; readonly message: string }[] = [];
  if (from && to && from >= to) faults.push({ field: 'to', message: 'must be after from' });
  if (kind !== 'backfill') {
    if (!from) faults.push({ field: 'from', message: 'is required when kind is replay' });
    return faults;
  }
  if (!webhook_id) {
    faults.push({ field: 'webhook_id', message: 'is required when kind is backfill' });
  }
  const given = REPLAY_ONLY.filter((field) => rest[field] !== undefined && rest[field] !== null);
  const message = 'must be absent when kind is backfill';
  return [...faults, ...given.map((field) => ({ field, message }))];
}

const count = (description: string) => z.int().min(0).meta({ description });
const kind = means(
  z.enum(REPLAY_KINDS),
  '`replay` sends ended deliveries again; `backfill` sends stored events that a webhook did not get',
);

/** The filter of a job. That of a backfill has only its webhook, the webhook's topic and trigger, and the times. */
const selected = (what: string) => `Only deliveries ${what}; of all when null`;
const filter = z.object({
  webhook_id: means(nullableId(), selected('of this webhook')),
  url: means(nullableText(), selected('of webhooks with this address')),
  topic: means(z.enum(TOPICS).nullable(), selected('of this topic')),
  trigger: means(z.enum(TRIGGERS).nullable(), selected('of this trigger')),
  states: means(
    z.array(z.enum(DELIVERY_STATES)),
    'Only deliveries in one of these states; all when empty',
  ),
  return_id: means(nullableId(), selected('about this return')),
  from: means(time(), 'Events at or after this time; null for the oldest stored event'),
  to: means(time(), 'Events before this time'),
});

export const replayPreview = z
  .object({
    kind,
    matched: count(
      'Number of deliveries (for a backfill: stored events) that match, up to 100,000',
    ),
    more: z.boolean().meta({
      description:
        'Whether more match than were counted. Then a start is rejected: narrow the time',
    }),
    replayable: count(
      'Number that would be sent. A backfill also skips the events that the webhook got already',
    ),
    not_replayable: z
      .array(
        z
          .object({
            reason: z.enum(UNREPLAYABLE_REASONS).meta({
              description:
                '`payload_gone`: the body was removed, because the customer was redacted or its retention ended',
            }),
            count: count('Number of deliveries'),
          })
          .meta({ id: 'NotReplayable' }),
      )
      .meta({ description: 'The other matching deliveries, by reason' }),
    oldest_at: time().meta({ description: 'Time of the oldest matching event' }),
    newest_at: time().meta({ description: 'Time of the newest matching event' }),
  })
  .meta({ id: 'WebhookReplayPreview' });
export type ReplayPreviewObject = z.infer<typeof replayPreview>;

export const webhookReplay = z
  .object({
    id: means(jobId(), 'Identifier of the job'),
    kind,
    state: z.enum(REPLAY_STATES).meta({
      description:
        '`running` in the background, `done`, `cancelled` by a user, or `failed`: `error` says why, and what was done until then was sent',
    }),
    filter: means(
      filter.meta({ id: 'WebhookReplayFilter' }),
      'The filter of the request; for a backfill its webhook, pair and times',
    ),
    total: count('Number of deliveries or events to send, as counted at the start'),
    done: count('Number of deliveries that were queued to be sent'),
    skipped: count(
      'Number that could no longer be sent, or that the webhook of a backfill got already',
    ),
    started_at: z.string().meta({ format: 'date-time', description: 'When it was started' }),
    finished_at: time().meta({ description: 'When it ended; null while it runs' }),
    error: nullableText().meta({ description: 'Why it failed; null otherwise' }),
  })
  .meta({ id: 'WebhookReplay' });
export type ReplayObject = z.infer<typeof webhookReplay>;

export const replayPage = z
  .object({
    replays: z.array(webhookReplay).meta({ description: 'Newest first' }),
    next_cursor: z
      .string()
      .nullable()
      .meta({ description: '`cursor` of the next page; null on the last' }),
  })
  .meta({ id: 'WebhookReplayPage' });

/** Selects replays and backfills, and a page of them. */
export interface ReplaysQuery extends Page {
  /** Id of a webhook; 0 selects the jobs of all webhooks. */
  readonly webhookId: bigint;
}

/** The parameters of the query. */
export const REPLAYS_PARAMETERS = ['webhook_id', 'limit', 'cursor'] as const;

/** Parses the query of a list of replays. Each known parameter may occur once, and must not be empty. */
export function readReplaysQuery(query: URLSearchParams): QueryResult<ReplaysQuery> {
  return readQuery(() => {
    const parameters = parametersIn(query, REPLAYS_PARAMETERS);
    const id = parameters.text('webhook_id');
    const webhookId = id === undefined ? 0n : parseId(id);
    if (webhookId === undefined) {
      throw new InvalidParameter('webhook_id', 'must be the id of a webhook');
    }
    return { webhookId, ...parameters.page() };
  });
}
