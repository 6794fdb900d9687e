import type pg from 'pg';
import { inTransaction, type Queryable } from '../../../platform/postgres.ts';
import { dayOf } from '../../delivery-id.ts';
import type { EndpointChange } from '../endpoint/health-changes.ts';
import { leaseOf, queueKeyOf } from '../queue/queue-ref.ts';
import type { AttemptResult } from './attempt-result.ts';
import { countFailures } from './count-failures.ts';
import type { Notice } from './notice.ts';
import { type Recording, recordStatement } from './record-statement.ts';

export interface WrittenResults {
  /** Results that were not recorded because this process has lost the lease of their shard. */
  readonly stale: readonly AttemptResult[];
  /** Results that were skipped because another transaction has locked their subscriptions. */
  readonly skipped: readonly AttemptResult[];
  /** Deactivations of subscriptions, and warnings. */
  readonly notices: readonly Notice[];
}

/**
 * Records results of attempts and the times of the next attempts, in one statement. If attempts failed, or succeeded
 * for the first time after failures, the same transaction first counts the failures of their subscriptions. A batch
 * with only successes is committed without waiting for the disk. The call may be repeated when the response of a commit
 * was lost.
 *
 * - A result is not recorded when the lease of its shard is lost.
 * - A delivery that was dropped during its attempt stays dropped, unless it was delivered.
 * - A delivery that was replayed during its attempt continues. The attempt is only logged.
 * - A failure of a subscription that another transaction has locked is skipped, because the lock may last long.
 *
 * @param o.offsetMs offset of the retry clock.
 */
export async function writeResults(
  pool: pg.Pool,
  attemptResults: readonly AttemptResult[],
  endpoints: readonly EndpointChange[],
  o: { offsetMs: number },
): Promise<WrittenResults> {
  const toCount = resultsToCount(attemptResults);
  if (toCount.length === 0) {
    // After a crash of the database, deliveries whose results are lost are sent again, like deliveries in flight.
    const stale = await write(pool, attemptResults, endpoints, { ...o, isRelaxed: true });
    return { stale, skipped: [], notices: [] };
  }
  return inTransaction(pool, async (tx) => {
    const values = [leasesOf(attemptResults, endpoints)];
    await tx.query({ name: 'lock-leases', text: LOCK_LEASES, values });
    const { notices, busy } = await countFailures(tx, toCount, o);
    const skipped = toCount.filter(({ due }) => busy.has(queueKeyOf(due)));
    const rest = attemptResults.filter((one) => !skipped.includes(one));
    const stale = await write(tx, rest, endpoints, { ...o, isRelaxed: false });
    return { stale, skipped, notices };
  });
}

/**
 * Returns the results that change the count of failures of their subscription: failures, and the first success after a
 * failure.
 */
function resultsToCount(attemptResults: readonly AttemptResult[]): AttemptResult[] {
  const changesCount = ({ due, sent, ended }: AttemptResult): boolean =>
    sent !== undefined && (ended !== 'delivered' || due.isFailing);
  const failing = new Set(attemptResults.filter(changesCount).map(({ due }) => queueKeyOf(due)));
  if (failing.size === 0) return [];
  return attemptResults.filter(({ due, sent }) => sent && failing.has(queueKeyOf(due)));
}

function leasesOf(
  attemptResults: readonly AttemptResult[],
  endpoints: readonly EndpointChange[],
): string[] {
  const leases = [...attemptResults.map(({ due }) => leaseOf(due)), ...endpoints.map(leaseOf)];
  return [...new Set(leases)];
}

/** Writes the results. Returns those whose lease is lost. */
async function write(
  db: Queryable,
  attemptResults: readonly AttemptResult[],
  endpoints: readonly EndpointChange[],
  o: Pick<Recording, 'offsetMs' | 'isRelaxed'>,
): Promise<AttemptResult[]> {
  const stale: AttemptResult[] = [];
  const days = Map.groupBy(attemptResults, ({ due }) => dayOf(due.id).getTime());
  // All results were skipped. The health of their endpoints is recorded all the same.
  if (days.size === 0 && endpoints.length > 0) days.set(new Date().setUTCHours(0, 0, 0, 0), []);
  let changes = endpoints;
  for (const [day, ofDay] of days) {
    const leases = leasesOf(ofDay, changes);
    const recording = { ...o, leases, attemptResults: ofDay, endpoints: changes };
    stale.push(...(await record(db, new Date(day), recording)));
    changes = [];
  }
  return stale;
}

async function record(db: Queryable, day: Date, recording: Recording): Promise<AttemptResult[]> {
  const { rows } = await db.query<{ name: string; token: bigint }>(recordStatement(day, recording));
  const tokens = new Map(rows.map(({ name, token }) => [name, token]));
  return recording.attemptResults.filter(({ due, token }) => tokens.get(leaseOf(due)) !== token);
}

// Locks are always taken in this order: leases, subscriptions, subscription queues, endpoints, queue, deliveries.
const LOCK_LEASES = `
select from leases where name = any($1::text[]) order by name for share`;
