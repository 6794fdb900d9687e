import type { Bug } from '../bug.ts';

/** Bugs of replays and backfills. */
export const jobBugs: readonly Bug[] = [
  {
    name: 'replay-starts-two',
    promise: 'repeated requests for a replay with one key start one replay',
    file: 'services/webhooks/delivery/queue/requeue.ts',
    find: 'and ($4::text is null or d.replay_key is distinct from $4)',
    replace: 'and ($4::text is null or true)',
    tests: ['services/webhooks/delivery/queue/lifecycle.test.ts'],
  },
  {
    name: 'replay-of-redacted-bytes',
    promise: 'a delivery that had ended before a redaction is not sent again',
    file: 'services/webhooks/delivery/queue/requeue.ts',
    find: "'(p.body is not null and (p.redacted_at is null or d.finished_at >= p.redacted_at))'",
    replace: "'(p.body is not null)'",
    tests: ['services/webhooks/fan-out/redact.test.ts'],
  },
  {
    name: 'backfill-skips-a-page',
    promise: 'a backfill sends all retained events to a new subscription',
    file: 'services/webhooks/jobs/worker.ts',
    find: 'const { events, nextCursor } = await o.retained.read(span);',
    replace:
      "const first = await o.retained.read(span);\n  const { events, nextCursor } = first.nextCursor === '' ? first : await o.retained.read({ ...span, cursor: first.nextCursor });",
    tests: ['services/webhooks/jobs/backfill.test.ts'],
  },
  {
    name: 'backfill-repeats-what-was-delivered',
    promise: 'a backfill does not repeat deliveries',
    file: 'services/webhooks/fan-out/insert.ts',
    find: 'on conflict (shop_id, id) do nothing\n  returning shop_id, id, subscription_id',
    replace:
      'on conflict (shop_id, id) do update set ended = null\n  returning shop_id, id, subscription_id',
    tests: ['services/webhooks/jobs/backfill.test.ts'],
  },
  {
    name: 'job-deliveries-kept-forever',
    promise: 'a replay or backfill, and which deliveries it queued, is kept as long as the log',
    file: 'services/webhooks/jobs/job-store.ts',
    find: 'where d.shop_id = old.shop_id and d.job_id = old.job_id',
    replace: 'where false and d.shop_id = old.shop_id and d.job_id = old.job_id',
    tests: ['services/webhooks/jobs/replay.test.ts'],
  },
  {
    name: 'handover-not-fenced',
    promise: 'a process that was too slow changes nothing of a handover that another has claimed',
    file: 'services/dispositions/hand-over.ts',
    find: 'and lease_token = any (',
    replace: 'and 0 <> all (',
    tests: ['services/dispositions/hand-over.test.ts'],
  },
];
