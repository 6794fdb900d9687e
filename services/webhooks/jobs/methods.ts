import type { ServiceImpl } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import type {
  DeliveryFilter,
  WebhooksService,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { invalidField } from '../../platform/errors.ts';
import { id, idempotencyKey, parseInput } from '../../platform/input.ts';
import { bindCursor, placeInCursor } from '../../platform/list-cursor.ts';
import { cancelJob, readJob, readJobs } from './job-store.ts';
import type { RetainedEvents } from './retained-events.ts';
import { previewBackfill, startBackfill } from './start-backfill.ts';
import { previewFilter, startReplay } from './start-replay.ts';
import { backfillPreviewMessage, previewMessage, replayMessage } from './views.ts';

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
