import { setTimeout as sleep } from 'node:timers/promises';
import { type Row, seconds } from '../row.ts';
import { metricOf } from '../system/metrics.ts';
import { nowMs, waitFor } from '../wait.ts';
import { untilCaughtUp } from './catch-up.ts';
import { asAdmin, leftBehind } from './grants.ts';
import { withTrial } from './trial.ts';

const PER_SECOND = 20;
const REFUSED_MS = { short: 6_000, full: 30_000 };
const FLOWS_MS = 10_000;
const FAULT_SEEN_MS = 60_000;
const QUIET_MS = 120_000;

/** The table that cannot be written: the log of attempts, or the queue. */
const TABLES = ['attempts', 'queue'] as const;

/** SQLSTATE P0001 does not show whether the row or the whole table is the reason. */
const refuse = (table: string): string => `
create function webhooks.refuse_results() returns trigger language plpgsql
  as $$ begin raise exception 'refused by the fault suite'; end $$;
grant execute on function webhooks.refuse_results() to public;
create trigger refuse_results before ${table === 'queue' ? 'update or delete' : 'insert'} on webhooks.${table}
  for each statement execute function webhooks.refuse_results()`;
const ACCEPT = 'drop function webhooks.refuse_results() cascade';

/** Receivers respond to requests, but the database rejects the results. */
export const unrecordedResultsRow: Row = {
  name: 'unrecorded-results',
  fault: 'results cannot be recorded, for a reason that is no outage',
  mustHold:
    'lost 0; duplicates 0: nothing is sent again; `webhooks_results_oldest_age` says so; flows ≤ 10 s after, by itself',
  budgetMs: { short: 200_000, full: 400_000 },
  run: (context) =>
    asAdmin(context.system, (admin) =>
      withTrial(context, {}, async (trial) => {
        const { system, full, slack } = context;
        const publisher = trial.publish({ perSecond: PER_SECOND });
        await sleep(1_000);
        const waits: number[] = [];
        let inFlight = 0;
        for (const table of TABLES) {
          await admin.query(refuse(table));
          try {
            await sleep(full ? REFUSED_MS.full : REFUSED_MS.short);
            if (table === 'queue') {
              const oldest = () => metricOf(system, 'webhooks', 'webhooks_results_oldest_age');
              const what = 'the age of unrecorded results is shown';
              await waitFor(async () => (await oldest()) > 1, { what, withinMs: FAULT_SEEN_MS });
            }
            inFlight += await metricOf(system, 'webhooks', 'webhooks_in_flight');
          } finally {
            await admin.query(ACCEPT);
          }
          const backMs = nowMs();
          await untilCaughtUp(trial, backMs, QUIET_MS);
          await untilRecorded(trial.shop.id, backMs);
          waits.push(nowMs() - backMs);
        }
        const longest = Math.max(...waits);
        if (longest > FLOWS_MS * slack) {
          trial.doubts.push(`recorded again only after ${seconds(longest)}`);
        }
        await publisher.stop();
        const result = await trial.finish({
          trials: TABLES.length,
          inFlight,
          quietMs: QUIET_MS,
          figures: [`results recorded after ${seconds(longest)} (longest)`],
        });
        const left = await leftBehind(system, trial.shop.id);
        return { ...result, problems: [...result.problems, ...left] };

        /** Waits until all deliveries that were queued before that moment have a result. */
        async function untilRecorded(shopId: number, beforeMs: number): Promise<void> {
          const isRecorded = async (): Promise<boolean> => {
            const { rows } = await system.pool.query<{ count: bigint }>(
              `select count(*) from webhooks.queue
                where shop_id = $1 and queued_at < to_timestamp($2::float8 / 1000)`,
              [shopId, beforeMs],
            );
            return rows[0]?.count === 0n;
          };
          await waitFor(isRecorded, { what: 'all results are recorded', withinMs: QUIET_MS });
        }
      }),
    ),
};
