import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { roleOf } from '../../../services/platform/postgres/schemas.ts';
import { openPartnerShop, startPartner } from '../ledger/partner.ts';
import { type Row, type RowContext, seconds, someOf } from '../row.ts';
import type { System } from '../system/system.ts';
import { nowMs, waitFor } from '../wait.ts';
import { untilCaughtUp } from './catch-up.ts';
import { asAdmin, type Grant, grant, leftBehind, refusalsSeen, revoke } from './grants.ts';
import { unrecordedIn } from './in-flight.ts';
import { isPassedOn } from './passed-on.ts';
import { type Trial, withTrial } from './trial.ts';

/** A reason why the database rejects statements that it normally accepts, and how to remove it. */
interface Refusal {
  readonly name: string;
  begin(admin: pg.Client, system: System): Promise<unknown>;
  end(admin: pg.Client, system: System): Promise<unknown>;
}

/** Rights of processes that read, write, listen, deliver and authenticate. */
const GRANTS: readonly Grant[] = [
  { right: 'select', table: 'returns.return_lines', role: 'rms_returns' },
  { right: 'insert', table: 'returns.events', role: 'rms_returns' },
  { right: 'select', table: 'gateway.api_keys', role: 'rms_gateway' },
  { right: 'insert', table: 'carts.carts', role: 'rms_carts' },
  { right: 'insert', table: 'webhooks.consumed_events', role: 'rms_webhooks' },
  { right: 'insert', table: 'webhooks.attempts', role: 'rms_webhooks' },
];
/** Only the right on the results of deliveries. Requests are sent, but their results cannot be recorded. */
const RESULTS_ONLY = GRANTS.filter(({ table }) => table === 'webhooks.attempts');

const grants = (name: string, lost: readonly Grant[]): Refusal => ({
  name,
  begin: (admin) => revoke(admin, lost),
  end: (admin) => grant(admin, lost),
});

const SERVICES = ['returns', 'webhooks', 'gateway', 'carts'] as const;
const ROLES = SERVICES.map(roleOf);

/**
 * Takes the right to log in and the password from the roles, or gives them back, and closes their connections, so that
 * each process must log in again.
 */
async function setLogins(admin: pg.Client, right: string, password: string): Promise<void> {
  const login = `${right} password ${pg.escapeLiteral(password)}`;
  await admin.query(ROLES.map((role) => `alter role ${role} ${login};`).join(''));
  await admin.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where usename = any($1)',
    [ROLES],
  );
}

const LOGINS = 'logins refused';

const REFUSALS: readonly Refusal[] = [
  grants('grant on results lost', RESULTS_ONLY),
  grants('grants lost', GRANTS),
  {
    name: LOGINS,
    begin: (admin) => setLogins(admin, 'nologin', 'rotated'),
    end: (admin, { secrets }) => setLogins(admin, 'login', secrets.databasePassword),
  },
];

const TRIALS = { short: 1, full: 5 };
const PER_SECOND = 30;
const REFUSED_MS = { short: 1_000, full: 10_000 };
const FLOWS_MS = 10_000;
const TIMEOUT_MS = 120_000;

/** The database rejects normally accepted statements of processes, under load from all sides. */
export const refusalsRow: Row = {
  name: 'database-refusals',
  fault: 'grants lost, logins refused (SQLSTATE 42501, class 28)',
  mustHold:
    'no 500, only 503 with `Retry-After`; lost 0, poison records 0, failed jobs 0; no delivery repeated while its result cannot be recorded; flows ≤ 10 s after, by itself',
  budgetMs: { short: 150_000, full: 900_000 },
  async run(context) {
    const { system } = context;
    const shop = await openPartnerShop(system);
    return asAdmin(system, (admin) =>
      withTrial(context, { shopId: shop.shopId }, async (trial) => {
        const publisher = trial.publish({ perSecond: PER_SECOND });
        const stream = context.random.fork('partner');
        const partner = startPartner({ system, shop, random: stream, perSecond: 15, publisher });
        const waits: number[] = [];
        let refused = 0;
        const trials = TRIALS[context.full ? 'full' : 'short'];
        for (let nth = 0; nth < trials; nth += 1) {
          for (const refusal of REFUSALS) {
            const { count, flowsMs } = await refuse(context, trial, { refusal, admin, partner });
            refused += count;
            waits.push(flowsMs);
            context.say(`${refusal.name}: ${count} refusals, flows after ${seconds(flowsMs)}`);
          }
        }
        await partner.stop();
        trial.problems.push(
          ...someOf(partner.violations),
          ...(await leftBehind(system, shop.shopId)),
        );
        const longest = Math.max(...waits);
        if (longest > FLOWS_MS * context.slack) {
          trial.doubts.push(`flows again only after ${seconds(longest)}`);
        }
        return trial.finish({
          trials: waits.length,
          inFlight: refused,
          quietMs: TIMEOUT_MS,
          passesOn: true,
          figures: [
            `flows after ${seconds(longest)} (longest)`,
            `${partner.statuses.get(503) ?? 0} answers of 503`,
          ],
        });
      }),
    );
  },
};

async function refuse(
  { system, full }: RowContext,
  trial: Trial,
  o: {
    readonly refusal: Refusal;
    readonly admin: pg.Client;
    readonly partner: ReturnType<typeof startPartner>;
  },
): Promise<{ readonly count: number; readonly flowsMs: number }> {
  const before = await refusalsSeen(system, SERVICES);
  const from = nowMs();
  const unrecorded = await unrecordedIn(system, trial);
  const sentBefore = acceptedOf(trial, system);
  await o.refusal.begin(o.admin, system);
  await sleep(full ? REFUSED_MS.full : REFUSED_MS.short);
  const what = `the database refuses: ${o.refusal.name}`;
  const isRefused = async () => {
    const more = (await refusalsSeen(system, SERVICES)) - before;
    return more > 0 && more;
  };
  const count = await waitFor(isRefused, { what, withinMs: TIMEOUT_MS });
  await o.refusal.end(o.admin, system);
  const back = nowMs();
  await Promise.all([o.partner.untilHealthy(TIMEOUT_MS), untilCaughtUp(trial, back, TIMEOUT_MS)]);
  const flowsMs = nowMs() - back;
  trial.faults.push({ from, to: nowMs(), unrecorded });
  if (o.refusal.name !== LOGINS) {
    await system.sink.flush();
    const again = acceptedAgain(trial, system, sentBefore);
    // A process that was frozen for longer than its lease has lost its results to another process.
    if (again > 0 && !(await isPassedOn(system, from, again))) {
      trial.problems.push(`${o.refusal.name}: ${again} deliveries were sent again`);
    }
  }
  return { count, flowsMs };
}

/** Number of accepted requests, by webhook-id. */
function acceptedOf(trial: Trial, { sink }: System): ReadonlyMap<string, number> {
  const counted = sink.arrivals.ids(trial.paths).map((id): [string, number] => {
    return [id, sink.arrivals.withId(id).filter(({ accepted }) => accepted).length];
  });
  return new Map(counted);
}

/** Number of repeated requests of deliveries that had not been sent before the fault. */
function acceptedAgain(trial: Trial, system: System, before: ReadonlyMap<string, number>): number {
  return [...acceptedOf(trial, system)]
    .filter(([id]) => !before.has(id))
    .reduce((sum, [, count]) => sum + Math.max(0, count - 1), 0);
}
