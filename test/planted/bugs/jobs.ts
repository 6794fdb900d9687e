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
    find: 'where ${mayLease}::boolean and ${raw(MAX_JOBS_OF_SHOP)} > (',
    replace: 'where ${mayLease}::boolean and 1000 > (',
    tests: WORKER,
  },
  {
    name: 'place-beyond-limit-of-shop',
    promise: 'a shop leaves places for others',
    file: 'services/returns/processing/worker.ts',
    find: 'ofShop.length < MAX_JOBS_OF_SHOP',
    replace: 'ofShop.length < 1000',
    tests: WORKER,
  },
  {
    name: 'new-jobs-before-waiting',
    promise: 'jobs that wait run before new ones',
    file: 'services/returns/processing/worker.ts',
    find: '      !isWorkLeft &&\n',
    replace: '',
    tests: WORKER,
  },
  {
    name: 'lease-while-stopping',
    promise: 'a worker that stops takes no more jobs',
    file: 'services/returns/processing/worker.ts',
    find: '      !stopping.signal.aborted &&\n',
    replace: '',
    tests: WORKER,
  },
  {
    name: 'place-never-freed',
    promise: 'calls that queue nothing take no place',
    file: 'services/returns/processing/worker.ts',
    find: '        places.delete(place);\n',
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
