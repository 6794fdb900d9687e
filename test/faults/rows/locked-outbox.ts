import { setTimeout as sleep } from 'node:timers/promises';
import { openPartnerShop, type PartnerShop } from '../ledger/partner.ts';
import type { Publisher } from '../ledger/publisher.ts';
import { type Row, seconds } from '../row.ts';
import type { System } from '../system/system.ts';
import { nowMs, waitFor } from '../wait.ts';
import { untilCaughtUp } from './catch-up.ts';
import { asAdmin } from './grants.ts';
import { unrecordedIn } from './in-flight.ts';
import { withTrial } from './trial.ts';

/** Longer than a call waits for a lock. Milliseconds. */
const LOCKED_MS = { short: 9_000, full: 30_000 };
/** A call waits for a lock for at most 4 s. A busy server may stop the wait later. Milliseconds. */
const LONGEST_WAIT_MS = 7_000;
const PER_SECOND = 30;
/** Only calls write events, because there is no processing. */
const CALLS_ONLY = { submit: 6, label: 2, process: 0 };
const FIRST_MS = 30_000;
const READ_MS = 5_000;
const EVERY_MS = 100;
const TIMEOUT_MS = 120_000;

/** Another session locks the outbox of returns. Writes wait, reads continue. */
export const lockedOutboxRow: Row = {
  name: 'locked-outbox',
  fault: '`lock table` on the outbox of returns, under writes',
  mustHold:
    'reads of returns go on; no call waits for the lock for long; no 500; lost 0; flows after, by itself',
  budgetMs: { short: 150_000, full: 300_000 },
  async run(context) {
    const { system, full } = context;
    const shop = await openPartnerShop(system);
    return withTrial(context, { shopId: shop.shopId }, (trial) =>
      asAdmin(system, async (admin) => {
        const publisher = trial.publish({ perSecond: PER_SECOND, mix: CALLS_ONLY });
        await waitFor(() => publisher.acknowledged.length >= 5, {
          what: 'some returns are submitted',
          withinMs: FIRST_MS,
        });
        const from = nowMs();
        const unrecorded = await unrecordedIn(system, trial);
        await admin.query('begin');
        await admin.query('lock table returns.events in access exclusive mode');
        const end = performance.now() + LOCKED_MS[full ? 'full' : 'short'];
        const [reads, longestMs] = await Promise.all([
          readUntil(end, () => read(system, shop, publisher)),
          longestWaitUntil(end, system),
        ]);
        if (reads.faults > 0) trial.problems.push(`${reads.faults} reads were answered 500`);
        await admin.query('rollback');
        const back = nowMs();
        await untilCaughtUp(trial, back, TIMEOUT_MS);
        const flowsMs = nowMs() - back;
        trial.faults.push({ from, to: nowMs(), unrecorded });
        if (longestMs > LONGEST_WAIT_MS) {
          trial.doubts.push(`a call waited for ${seconds(longestMs)}`);
        }
        if (reads.good <= reads.late) {
          trial.doubts.push(`${reads.late} of ${reads.good + reads.late} reads were not answered`);
        }
        const figures = [
          `${reads.good} of ${reads.good + reads.late} reads answered`,
          `longest wait of a call ${seconds(longestMs)}`,
          `flows after ${seconds(flowsMs)}`,
        ];
        const inFlight = publisher.repeats();
        return trial.finish({ trials: 1, inFlight, quietMs: TIMEOUT_MS, figures, passesOn: true });
      }),
    );
  },
};

/** The status of a read of a return. 0 when there was no response in time. */
async function read(system: System, shop: PartnerShop, publisher: Publisher): Promise<number> {
  const known = publisher.acknowledged.find(({ trigger }) => trigger === 'return.created');
  const id = known?.key.split(':')[1] ?? '1';
  const url = `${system.baseUrl}/api/2026-10/warehouse/return/details?return_id=${id}`;
  const headers = { 'X-Authorization': shop.key };
  try {
    const answer = await fetch(url, { headers, signal: AbortSignal.timeout(READ_MS) });
    await answer.arrayBuffer();
    return answer.status;
  } catch {
    return 0;
  }
}

/** Reads repeatedly until `end`. Counts the statuses 200, 500 and others, including missing responses. */
async function readUntil(
  end: number,
  readOnce: () => Promise<number>,
): Promise<{ readonly good: number; readonly late: number; readonly faults: number }> {
  const statuses: number[] = [];
  while (performance.now() < end) {
    statuses.push(await readOnce());
    await sleep(EVERY_MS);
  }
  const good = statuses.filter((status) => status === 200).length;
  const faults = statuses.filter((status) => status === 500).length;
  return { good, faults, late: statuses.length - good - faults };
}

/** The longest time until `end` that a call's statement waits for the outbox. Milliseconds. */
function longestWaitUntil(end: number, system: System): Promise<number> {
  // As the superuser, because other roles do not see the statements of a session.
  return asAdmin(system, async (admin) => {
    let longestMs = 0;
    while (performance.now() < end) {
      const { rows } = await admin.query<{ ms: number | null }>(
        `select max(extract(epoch from clock_timestamp() - query_start))::float8 * 1000 as ms
           from pg_stat_activity where usename = 'rms_returns' and wait_event_type = 'Lock' and query ilike '%insert into events%'`,
      );
      longestMs = Math.max(longestMs, rows[0]?.ms ?? 0);
      await sleep(EVERY_MS);
    }
    return longestMs;
  });
}
