import type { z } from 'zod';
import { conflict } from '../public-errors.ts';
import type { ReplayObject, ReplayPreviewObject, replayBody } from '../resources/webhook-replay.ts';
import type { OperationExample } from './example.ts';
import { TIMES, WEBHOOK_ID } from './story.ts';

/** A filter for the deliveries of two hours in which the receiver was unavailable. */
const outage = {
  webhook_id: WEBHOOK_ID,
  states: ['exhausted', 'delivered'],
  from: TIMES.outageBegan,
  to: TIMES.outageEnded,
} satisfies z.input<typeof replayBody>;
const MATCHED = 1204;
const GONE = 4;
const DONE = 800;

const preview: ReplayPreviewObject = {
  kind: 'replay',
  matched: MATCHED,
  more: false,
  replayable: MATCHED - GONE,
  not_replayable: [{ reason: 'payload_gone', count: GONE }],
  oldest_at: '2026-11-23T08:00:02+00:00',
  newest_at: '2026-11-23T09:59:58+00:00',
};
const started: ReplayObject = {
  id: 1,
  kind: 'replay',
  state: 'running',
  filter: { ...outage, url: null, topic: null, trigger: null, return_id: null },
  total: preview.replayable,
  done: 0,
  skipped: 0,
  started_at: TIMES.rotated,
  finished_at: null,
  error: null,
};
const running: ReplayObject = { ...started, done: DONE };

const conflicting = conflict('another replay or backfill of the subscription is running');
const invalid = { kind: 'backfill', from: outage.from };

export const REPLAY_EXAMPLES = {
  previewReplay: {
    request: outage,
    response: preview,
    conflict: conflict('the subscription is inactive'),
    invalid,
  },
  startReplay: { request: outage, response: started, conflict: conflicting, invalid },
  listReplays: { response: { replays: [running], next_cursor: null }, invalid: 'webhook_id=one' },
  getReplay: { response: running },
  cancelReplay: {
    response: { ...running, state: 'cancelled', finished_at: '2026-11-24T11:00:09+00:00' },
  },
} satisfies Record<string, OperationExample>;
