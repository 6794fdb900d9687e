import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { Check, type CheckRunSchema } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { deadline } from '../../platform/process/deadlines.ts';
import type { Worker } from '../../platform/process/worker.ts';
import type { Logger } from '../../platform/telemetry/log.ts';
import { DomainError } from '../../platform/values/errors.ts';
import { CHECK_RULES, checkEndpoint } from './checks.ts';
import type { CheckTarget } from './session.ts';

/** Time limit of one question. Milliseconds. */
const STEP_MS = 120_000;
/** How often the process that asks says that it still does, and when a check without such a word has ended. */
const ALIVE_EVERY_MS = 5_000;
const ALIVE_MS = deadline(20_000);
/** Time between the beginnings of two checks of a shop, because each sends about 90 requests. Milliseconds. */
const PAUSE_MS = 10_000;
/** Maximum number of checks that run in this process. */
const MAX_RUNS = 20;
/** Maximum number of problems of a question that are stored, and of characters of each. */
const MAX_PROBLEMS = 20;
const MAX_PROBLEM = 1_000;

interface Result {
  readonly check: Check;
  readonly problems: readonly string[];
}

interface Stored {
  readonly url: string;
  readonly startedAt: Date;
  readonly endedAt: Date | null;
  readonly interrupted: boolean;
  readonly results: readonly Result[];
}

/** A run as the RPCs answer it. */
export type CheckRun = MessageInitShape<typeof CheckRunSchema>;

/** The checks that this process runs. */
export interface CheckRuns extends Worker {
  /**
   * Begins a check in the background, and returns it. Returns the one that runs when the shop has one.
   *
   * @throws DomainError QUOTA_EXCEEDED when the last one began less than ten seconds ago, or when this process runs too
   *   many.
   */
  start(target: CheckTarget): Promise<CheckRun>;
}

/** SQL: a {@link Stored} run. */
const COLUMNS = `url, started_at as "startedAt", ended_at as "endedAt", results,
       ended_at is null and alive_until < now() as interrupted`;

/**
 * Creates the runner of checks. Each answer is stored when it is known. A check ends with its process: then it is read as
 * interrupted.
 */
export function createCheckRuns(o: { readonly pool: pg.Pool; readonly logger: Logger }): CheckRuns {
  const stopping = new AbortController();
  const running = new Set<Promise<void>>();
  // A check must not inherit the trace and the abort signal of the call that began it.
  const inOwnContext = AsyncLocalStorage.snapshot();
  const begin = (target: CheckTarget, runId: string) => {
    const work = inOwnContext(run, o, { target, runId, stopping: stopping.signal })
      .catch((error: unknown) => o.logger.error({ err: error }, 'check of an endpoint failed'))
      .finally(() => running.delete(work));
    running.add(work);
  };
  return {
    async start(target) {
      if (running.size >= MAX_RUNS || stopping.signal.aborted) {
        throw tooMany('many checks run at the moment: try again in a minute');
      }
      const runId = randomUUID();
      const made = await claim(o.pool, target, runId);
      if (made) begin(target, runId);
      const run = made ?? (await read(o.pool, target.shopId));
      if (run && (made || (run.endedAt === null && !run.interrupted))) return runMessage(run);
      throw tooMany('the last check began a moment ago: try again in ten seconds');
    },
    async stop() {
      stopping.abort();
      await Promise.all(running);
    },
  };
}

/** Reads the last check of a shop's endpoint; undefined when there is none. */
export async function lastCheck(db: Queryable, shopId: bigint): Promise<CheckRun | undefined> {
  const run = await read(db, shopId);
  return run && runMessage(run);
}

async function read(db: Queryable, shopId: bigint): Promise<Stored | undefined> {
  const { rows } = await db.query<Stored>(
    `select ${COLUMNS} from commerce_checks where shop_id = $1`,
    [shopId],
  );
  return rows[0];
}

/** Stores a new run, unless one runs or has just begun. Of several calls at once only one gets it. */
async function claim(
  db: Queryable,
  { shopId, url }: CheckTarget,
  runId: string,
): Promise<Stored | undefined> {
  const { rows } = await db.query<Stored>(
    `insert into commerce_checks as c (shop_id, run_id, url, alive_until)
     values ($1, $2, $3, now() + $4 * interval '1 ms')
     on conflict (shop_id) do update
       set run_id = excluded.run_id, url = excluded.url, started_at = now(), ended_at = null,
           alive_until = excluded.alive_until, results = '[]'
     where (c.ended_at is not null or c.alive_until < now())
       and c.started_at < now() - $5 * interval '1 ms'
     returning ${COLUMNS}`,
    [shopId, runId, url, ALIVE_MS, PAUSE_MS],
  );
  return rows[0];
}

interface Run {
  readonly target: CheckTarget;
  readonly runId: string;
  readonly stopping: AbortSignal;
}

/** Asks all questions. Ends when the run was replaced, or its shop disconnected. */
async function run(
  { pool, logger }: { readonly pool: pg.Pool; readonly logger: Logger },
  { target, runId, stopping }: Run,
): Promise<void> {
  const of = [target.shopId, runId] as const;
  const gone = new AbortController();
  const keepAlive = setInterval(() => {
    pool
      .query(
        `update commerce_checks set alive_until = now() + $3 * interval '1 ms'
          where shop_id = $1 and run_id = $2 and ended_at is null`,
        [...of, ALIVE_MS],
      )
      .then(({ rowCount }) => rowCount === 0 && gone.abort())
      .catch((error: unknown) => logger.warn({ err: error }, 'check of an endpoint: not kept'));
  }, ALIVE_EVERY_MS);
  try {
    const ending = AbortSignal.any([stopping, gone.signal]);
    for (const { check } of CHECK_RULES) {
      const problems = await ask(target, check, ending);
      if (ending.aborted || !(await store(pool, of, { check, problems }))) break;
      if (check === Check.CONNECTION && problems.length > 0) break;
    }
    // A run that this process gives up is read as interrupted at once.
    const end = stopping.aborted ? 'alive_until = now()' : 'ended_at = now()';
    await pool.query(
      `update commerce_checks set ${end}
        where shop_id = $1 and run_id = $2 and ended_at is null`,
      [...of],
    );
  } finally {
    clearInterval(keepAlive);
  }
}

/** What is wrong, in texts that can be stored. */
async function ask(target: CheckTarget, check: Check, ending: AbortSignal): Promise<string[]> {
  const late = AbortSignal.timeout(STEP_MS);
  const signal = AbortSignal.any([ending, late]);
  const { problems } = await checkEndpoint({ ...target, signal }, check);
  if (late.aborted && !ending.aborted) {
    return [`this question was not answered within ${STEP_MS / 1_000} s`];
  }
  return problems.slice(0, MAX_PROBLEMS).map(storable);
}

function storable(problem: string): string {
  return problem.slice(0, MAX_PROBLEM).replaceAll('\0', '').toWellFormed();
}

/** Adds a result. Returns whether the run still exists. */
async function store(
  db: Queryable,
  of: readonly [shopId: bigint, runId: string],
  result: Result,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update commerce_checks set results = results || $3::jsonb, alive_until = now() + $4 * interval '1 ms'
      where shop_id = $1 and run_id = $2 and ended_at is null`,
    [...of, JSON.stringify([result]), ALIVE_MS],
  );
  return rowCount === 1;
}

function runMessage({ url, startedAt, endedAt, interrupted, results }: Stored): CheckRun {
  const problemsOf = new Map(results.map(({ check, problems }) => [check, problems]));
  return {
    url,
    startedAt: timestampFromDate(startedAt),
    ...(endedAt && { endedAt: timestampFromDate(endedAt) }),
    interrupted,
    steps: CHECK_RULES.map(({ check, title }) => {
      const problems = problemsOf.get(check);
      return { check, title, answered: problems !== undefined, problems: [...(problems ?? [])] };
    }),
  };
}

function tooMany(text: string): DomainError {
  return new DomainError(Code.ResourceExhausted, ErrorReason.QUOTA_EXCEEDED, text);
}
