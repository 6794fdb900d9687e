import { NOT_FOUND } from './errors.ts';
import { body, type Operation, webhookRules } from './operation.ts';
import * as shapes from './resources/errors.ts';
import {
  replayBody,
  replayPage,
  replayPreview,
  webhookReplay,
} from './resources/webhook-replay.ts';

/** Points of a preview, because its count may read a million deliveries. */
const COUNT_POINTS = 10;

/** The operations on replays by filter and backfills. Both are jobs, which run in the background. */
export const WEBHOOK_REPLAY_OPERATIONS: readonly Operation[] = [
  {
    ...webhookRules,
    id: 'previewReplay',
    method: 'POST',
    path: '/webhook-replay-previews',
    body: body(replayBody),
    points: COUNT_POINTS,
    success: { status: 200, schema: replayPreview },
    addition: true,
    summary: 'Preview replay',
    description:
      'Counts what *Start replay* with the same body would send, and what it could not. It starts nothing. It counts as ten requests. A backfill of an inactive webhook, or of one that never delivers, is rejected (409).',
    errors: { 409: [shapes.errorsMessage], 422: [shapes.messageError] },
  },
  {
    ...webhookRules,
    id: 'startReplay',
    method: 'POST',
    path: '/webhook-replays',
    body: body(replayBody),
    keyed: 'header',
    points: COUNT_POINTS,
    success: { status: 201, schema: webhookReplay },
    addition: true,
    summary: 'Start replay',
    description:
      'Starts a job that sends the deliveries of a filter again: oldest first, each once, with the same `webhook-id` and the same bytes. New events are sent first. A backfill sends a webhook the stored events of its trigger, except those that it got already. When there is nothing to send, the job is done immediately. It counts as ten requests. More than 100,000 deliveries, or a webhook with a job that runs, are rejected (409).',
    errors: { 409: [shapes.errorsMessage], 422: [shapes.messageError] },
  },
  {
    ...webhookRules,
    id: 'listReplays',
    method: 'GET',
    path: '/webhook-replays',
    query: true,
    success: { status: 200, schema: replayPage },
    addition: true,
    summary: 'List replays',
    description: 'Replays and backfills with their progress, newest first, for 30 days.',
    errors: { 422: [shapes.messageError] },
  },
  {
    ...webhookRules,
    id: 'getReplay',
    method: 'GET',
    path: '/webhook-replays/{id}',
    notFound: NOT_FOUND.replay,
    success: { status: 200, schema: webhookReplay },
    addition: true,
    summary: 'Get replay',
    description: 'A replay or a backfill with its progress.',
    errors: { 404: [shapes.webhookNotFound] },
  },
  {
    ...webhookRules,
    id: 'cancelReplay',
    method: 'POST',
    path: '/webhook-replays/{id}/cancel',
    notFound: NOT_FOUND.replay,
    success: { status: 200, schema: webhookReplay },
    addition: true,
    summary: 'Cancel replay',
    description:
      'Stops a replay or a backfill. Deliveries that are queued already are still sent. A job that has ended does not change.',
    errors: { 404: [shapes.webhookNotFound] },
  },
];
