import type { Bug } from '../bug.ts';

const WORKER = ['services/returns/processing/worker.test.ts'];

/** Bugs of replays, backfills and processing. */
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
  {
    name: 'last-effect-lost',
    promise: 'the details of an open return show each effect that was made',
    file: 'services/returns/processing/run.ts',
    find: 'if (made && !(error instanceof LeaseLost)) await recordEffect(pool, job, made);',
    replace: '',
    tests: ['services/returns/processing/run.test.ts'],
  },
  {
    name: 'lease-beyond-limit-of-shop',
    promise: 'a shop runs at most four jobs over all processes',
    file: 'services/returns/processing/jobs.ts',
    find: 'raw(MAX_JOBS_OF_SHOP)} > (',
    replace: "raw('1000')} > (",
    tests: WORKER,
  },
  {
    name: 'leases-at-the-same-moment',
    promise: 'a shop leaves places for others',
    file: 'services/returns/processing/jobs.ts',
    find: "pg_try_advisory_xact_lock(hashtextextended('returns:processing:'",
    replace: "(null is distinct from hashtextextended('returns:processing:'",
    tests: WORKER,
  },
  {
    name: 'new-jobs-before-waiting',
    promise: 'jobs that wait run before new ones',
    file: 'services/returns/processing/worker.ts',
    find: 'if (isWorkLeft || stopping',
    replace: 'if (stopping',
    tests: WORKER,
  },
  {
    name: 'lease-while-stopping',
    promise: 'a worker that stops takes no more jobs',
    file: 'services/returns/processing/worker.ts',
    find: 'stopping.signal.aborted || free() <= 0) return queue(false)',
    replace: 'free() <= 0) return queue(false)',
    tests: WORKER,
  },
  {
    name: 'place-never-freed',
    promise: 'calls that queue nothing take no place',
    file: 'services/returns/processing/worker.ts',
    find: '        queueing -= 1;\n',
    replace: '',
    tests: WORKER,
  },
  {
    name: 'job-in-the-call',
    promise: 'the end of a call does not end its job',
    file: 'services/returns/processing/worker.ts',
    find: 'const running = inOwnContext(() =>',
    replace: 'const running = ((work: () => Promise<RunEnd>) => work())(() =>',
    tests: WORKER,
  },
];
