import { create } from '@bufbuild/protobuf';
import { type Timestamp, timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import {
  type DeliveryFilter,
  DeliveryFilterSchema,
  type PreviewBackfillResponse,
  PreviewBackfillResponseSchema,
  type PreviewReplayResponse,
  PreviewReplayResponseSchema,
  type Replay,
  ReplayKindSchema,
  ReplaySchema,
  ReplayStateSchema,
  UnreplayableReasonSchema,
  type WebhooksService,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { delivers } from '../../contract/topics/topics.ts';
import { inTransaction } from '../../platform/postgres/postgres.ts';
import { enumText } from '../../platform/values/enum-text.ts';
import { invalidField, stateForbids } from '../../platform/values/errors.ts';
import { id, idempotencyKey, parseInput, time } from '../../platform/values/input.ts';
import { bindCursor, placeInCursor } from '../../platform/values/list-cursor.ts';
import { parseFilter, resolveFilter } from '../log/filter.ts';
import { getSubscription } from '../subscriptions/subscription-store.ts';
import { type Job, MAX_JOB } from './job.ts';
import { cancelJob, insertJob, jobOfKey, readJob, readJobs } from './job-store.ts';
import { type Preview, previewReplay } from './preview.ts';
import type { RetainedCount, RetainedEvents, RetainedSpan } from './retained-events.ts';

export interface JobsContext {
  readonly pool: pg.Pool;
  readonly retained: RetainedEvents;
  /** How long a job may reach back: the retention of events or of the log, whichever is shorter. Days. */
  readonly keptDays: number;
  /** Called when a job has been started. */
  readonly wake: () => void;
}

const DEFAULT_PAGE = 50;
const MAX_PAGE = 200;
const place = z.object({
  cursor: z.string().regex(/^(|[1-9]\d{0,15})$/, 'must be the cursor of a previous page'),
});
const named = z.object({ replayId: id });
const keyed = z.object({ idempotencyKey });
const page = z.object({
  subscriptionId: z.bigint().refine((value) => value >= 0n, 'must be an id, or 0'),
  pageSize: z
    .int()
    .refine((value) => value >= 0 && value <= MAX_PAGE, `must be 1 to ${MAX_PAGE}`)
    .transform((value) => value || DEFAULT_PAGE),
  cursor: z.string(),
});

/** The RPCs of replays and backfills. */
export function jobMethods(c: JobsContext) {
  const { pool, wake } = c;
  return {
    async previewReplay({ shopId, filter }) {
      return previewMessage(await previewFilter(pool, shopId, required(filter)));
    },
    async startReplay(request) {
      const { idempotencyKey: key } = parseInput(keyed, request);
      const { shopId, filter } = request;
      const job = await startReplay(pool, { shopId, key, requested: required(filter) });
      wake();
      return { replay: replayMessage(job) };
    },
    async previewBackfill(request) {
      return backfillPreviewMessage(await previewBackfill(c, request));
    },
    async startBackfill(request) {
      const { idempotencyKey: key } = parseInput(keyed, request);
      const job = await startBackfill(c, { ...request, key });
      wake();
      return { replay: replayMessage(job) };
    },
    async getReplay(request) {
      const { replayId } = parseInput(named, request);
      return { replay: replayMessage(await readJob(pool, request.shopId, replayId)) };
    },
    async cancelReplay(request) {
      const { replayId } = parseInput(named, request);
      return { replay: replayMessage(await cancelJob(pool, request.shopId, replayId)) };
    },
    async listReplays(request) {
      const { shopId } = request;
      const { pageSize, subscriptionId, ...sent } = parseInput(page, request);
      const list = { shopId, subscriptionId };
      const { cursor } = parseInput(place, { cursor: placeInCursor(sent.cursor, list) });
      const jobs = await readJobs(pool, {
        shopId,
        subscriptionId: subscriptionId || null,
        before: cursor === '' ? null : BigInt(cursor),
        limit: pageSize,
      });
      const shown = jobs.slice(0, pageSize);
      const last = jobs.length > shown.length ? shown.at(-1) : undefined;
      const nextCursor = bindCursor(last ? `${last.id}` : '', list);
      return { replays: shown.map(replayMessage), nextCursor };
    },
  } satisfies Partial<ServiceImpl<typeof WebhooksService>>;
}

function required(filter: DeliveryFilter | undefined): DeliveryFilter {
  if (!filter) throw invalidField('filter', 'is required');
  return filter;
}

const kindText = enumText(ReplayKindSchema);
const stateText = enumText(ReplayStateSchema);
const reasonText = enumText(UnreplayableReasonSchema);

function replayMessage(job: Job): Replay {
  const { id, filter, total, done, skipped, error } = job;
  return create(ReplaySchema, {
    id,
    kind: kindText.fromText(job.kind),
    state: stateText.fromText(job.state),
    filter,
    total,
    done,
    skipped,
    startedAt: timestampFromDate(job.startedAt),
    ...(job.finishedAt && { finishedAt: timestampFromDate(job.finishedAt) }),
    error,
  });
}

function previewMessage(preview: Preview): PreviewReplayResponse {
  return create(PreviewReplayResponseSchema, {
    matched: preview.matched,
    more: preview.isMore,
    replayable: preview.replayable.reduce((sum, { total }) => sum + total, 0),
    ...(preview.oldestAt && { oldestAt: timestampFromDate(preview.oldestAt) }),
    ...(preview.newestAt && { newestAt: timestampFromDate(preview.newestAt) }),
    notReplayable: preview.notReplayable.map(({ reason, count }) => ({
      reason: reasonText.fromText(reason),
      count,
    })),
  });
}

function backfillPreviewMessage(counted: RetainedCount): PreviewBackfillResponse {
  return create(PreviewBackfillResponseSchema, {
    events: counted.count,
    more: counted.isMore,
    ...(counted.oldestAt && { oldestAt: timestampFromDate(counted.oldestAt) }),
    ...(counted.newestAt && { newestAt: timestampFromDate(counted.newestAt) }),
  });
}

/**
 * Counts the deliveries that a replay with this filter would send.
 *
 * @throws DomainError INVALID_ARGUMENT; NOT_FOUND for a subscription that does not exist.
 */
export async function previewFilter(
  pool: pg.Pool,
  shopId: bigint,
  requested: DeliveryFilter,
): Promise<Preview> {
  return previewReplay(pool, await resolveFilter(pool, shopId, parseFilter(requested)));
}

/**
 * Starts a replay: counts its deliveries and stores the job. `preview.ts` and `worker.ts` choose the deliveries. A
 * background loop runs its batches. The index `replay_parts_alone` allows one running replay or backfill of a
 * subscription. A repeat with the same key returns the same replay.
 *
 * @throws DomainError INVALID_ARGUMENT; NOT_FOUND for a subscription that does not exist; ALREADY_EXISTS for a key of
 *   another call; FAILED_PRECONDITION for too many deliveries, or while another job runs for one of the subscriptions.
 */
export async function startReplay(
  pool: pg.Pool,
  o: { shopId: bigint; key: string; requested: DeliveryFilter },
): Promise<Job> {
  const job = { ...o, kind: 'replay' as const, filter: o.requested };
  const parsed = parseFilter(o.requested);
  const existing = await inTransaction(pool, (tx) => jobOfKey(tx, job));
  if (existing) return existing;
  const preview = await previewReplay(pool, await resolveFilter(pool, o.shopId, parsed));
  if (preview.isMore) throw tooMany('filter', 'deliveries');
  return inTransaction(pool, async (tx) => {
    return (await jobOfKey(tx, job)) ?? insertJob(tx, job, preview.replayable);
  });
}

/** The error for a job that would be too large (FAILED_PRECONDITION). */
function tooMany(what: string, things: string) {
  return stateForbids(
    `${what} names more than ${MAX_JOB} ${things}, or too much to count: narrow its time`,
  );
}

interface BackfillDependencies {
  readonly pool: pg.Pool;
  readonly retained: RetainedEvents;
  /** How long a backfill may reach back: the retention of events or of the log, whichever is shorter. Days. */
  readonly keptDays: number;
}

interface BackfillInput {
  readonly shopId: bigint;
  readonly subscriptionId: bigint;
  readonly from?: Timestamp | undefined;
  readonly to?: Timestamp | undefined;
}

const DAY_MS = 86_400_000;
const inputShape = z.object({ subscriptionId: id, from: time.optional(), to: time.optional() });

/**
 * Returns how many stored events a backfill would send.
 *
 * @throws DomainError INVALID_ARGUMENT; NOT_FOUND; FAILED_PRECONDITION when the subscription is inactive or its topic
 *   does not deliver its trigger.
 */
async function previewBackfill(
  deps: BackfillDependencies,
  input: BackfillInput,
): Promise<RetainedCount> {
  return deps.retained.count(await spanOf(deps, input));
}

/**
 * Starts a backfill: counts its events and stores the job. The loop in `worker.ts` runs its batches. A repeat with the
 * same key returns the same backfill.
 *
 * @throws DomainError as {@link previewBackfill}; ALREADY_EXISTS for a key of another call; FAILED_PRECONDITION also
 *   for too many events, or while another job runs for the subscription.
 */
async function startBackfill(
  deps: BackfillDependencies,
  o: BackfillInput & { readonly key: string },
): Promise<Job> {
  parseInput(inputShape, o);
  const { shopId, key, subscriptionId, from, to } = o;
  const requested = create(DeliveryFilterSchema, {
    subscriptionId,
    ...(from && { from }),
    ...(to && { to }),
  });
  const request = { shopId, key, requested, kind: 'backfill' as const };
  const existing = await inTransaction(deps.pool, (tx) => jobOfKey(tx, request));
  if (existing) return existing;
  const span = await spanOf(deps, o);
  const { count, isMore } = await deps.retained.count(span);
  if (isMore) throw tooMany('the time', 'events');
  const filter = create(DeliveryFilterSchema, {
    subscriptionId,
    topic: span.topic,
    trigger: span.trigger,
    from: timestampFromDate(span.from),
    to: timestampFromDate(span.to),
  });
  const job = { ...request, filter };
  const parts = count === 0 ? [] : [{ subscriptionId, total: count }];
  return inTransaction(
    deps.pool,
    async (tx) => (await jobOfKey(tx, job)) ?? insertJob(tx, job, parts),
  );
}

async function spanOf(
  { pool, keptDays }: BackfillDependencies,
  input: BackfillInput,
): Promise<RetainedSpan & { topic: string }> {
  const parsed = parseInput(inputShape, input);
  const { from, to } = timeOf(parsed, keptDays);
  const subscription = await getSubscription(pool, input.shopId, parsed.subscriptionId);
  const { topic, trigger, status } = subscription;
  if (!delivers(topic, trigger)) {
    throw stateForbids(`topic ${topic} says nothing about trigger ${trigger}`);
  }
  if (status !== 'active') throw stateForbids('the subscription is inactive');
  return { shopId: input.shopId, topic, trigger, from, to };
}

/** Returns the period of the backfill. By default it is from the oldest stored event until now. */
function timeOf(
  requested: { readonly from?: Date | undefined; readonly to?: Date | undefined },
  keptDays: number,
): { from: Date; to: Date } {
  const now = Date.now();
  const oldest = new Date(now - keptDays * DAY_MS);
  const from = requested.from ?? oldest;
  if (from < oldest) {
    throw invalidField(
      'from',
      `must lie within the last ${keptDays} days: events are kept no longer`,
    );
  }
  if (requested.to && requested.to <= from) throw invalidField('to', 'must lie after from');
  if (from.getTime() >= now) throw invalidField('from', 'must be past');
  return { from, to: new Date(Math.min(requested.to?.getTime() ?? now, now)) };
}
