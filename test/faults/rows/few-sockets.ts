import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Row } from '../row.ts';
import { metricOf } from '../system/metrics.ts';
import type { Member } from '../system/system.ts';
import { waitFor } from '../wait.ts';
import { asAdmin, leftBehind } from './grants.ts';
import { withTrial } from './trial.ts';

const run = promisify(execFile);

const PER_SECOND = 25;
const SUBSCRIPTIONS = 6;
/** Response time of the sink, so that requests are concurrent. Milliseconds. */
const SLOW_MS = 2_000;
/** Number of descriptors that a process may still open. */
const SPARE = 3;
const SHORT_MS = { short: 6_000, full: 30_000 };
const SEEN_MS = 60_000;
const QUIET_MS = 180_000;
const MIX = { submit: 1, label: 0, process: 0 };

/** The webhooks processes run out of file descriptors. */
export const fewSocketsRow: Row = {
  name: 'few-sockets',
  fault: 'the webhooks processes have no file descriptor left (EMFILE)',
  mustHold: 'lost 0; no attempt counts as failed: receivers did nothing',
  budgetMs: { short: 300_000, full: 400_000 },
  run: (context) =>
    asAdmin(context.system, (admin) =>
      withTrial(context, { subscriptions: { 'return.created': SUBSCRIPTIONS } }, async (trial) => {
        const { system, full } = context;
        const members = system.members('webhooks');
        const exhausted = () => metricOf(system, 'webhooks', 'webhooks_sockets_exhausted_total');
        const before = await exhausted();
        system.sink.behave([...trial.paths], { kind: 'accept', delayMs: SLOW_MS });
        // Connections of earlier rows would carry all requests, and none would need a descriptor.
        system.sink.listen(false);
        system.sink.listen(true);
        const limits = await Promise.all(members.map(softLimit));
        try {
          await Promise.all(members.map(leaveFew));
          trial.publish({ perSecond: PER_SECOND, mix: MIX });
          await sleep(full ? SHORT_MS.full : SHORT_MS.short);
        } finally {
          await Promise.all(members.map((one, nth) => setLimit(one, limits[nth] ?? '1024')));
          // Otherwise the rest would take minutes: six endpoints with eight requests of two seconds each.
          system.sink.behave([...trial.paths], { kind: 'accept' });
        }
        // Reading the metric needs a descriptor.
        const isSeen = async () => ((await exhausted()) > before ? exhausted() : false);
        const what = 'a process had no descriptor left';
        const count = await waitFor(isSeen, { what, withinMs: SEEN_MS }).catch(() => before);
        if (count === before) trial.doubts.push('no process ran out of descriptors');
        const result = await trial.finish({
          trials: members.length,
          inFlight: count - before,
          quietMs: QUIET_MS,
          passesOn: true,
          figures: [`${count - before} attempts were not made`],
        });
        const { rows } = await admin.query<{ error: string; count: bigint }>(
          `select error, count(*) as count from webhooks.attempts
            where shop_id = $1 and error <> '' group by error`,
          [trial.shop.id],
        );
        const charged = rows.map(
          (row) => `${row.count} attempts charged to receivers: ${row.error}`,
        );
        const left = await leftBehind(system, trial.shop.id);
        return { ...result, problems: [...result.problems, ...charged, ...left] };
      }),
    ),
};

async function softLimit({ process: running }: Member): Promise<string> {
  const text = await readFile(`/proc/${running.pid()}/limits`, 'utf8');
  return /^Max open files\s+(\d+)/m.exec(text)?.[1] ?? '1024';
}

/** Leaves a process a few free descriptors. The limit is the highest descriptor number, so only free numbers count. */
async function leaveFew(member: Member): Promise<void> {
  const open = new Set((await readdir(`/proc/${member.process.pid()}/fd`)).map(Number));
  let limit = 0;
  for (let free = 0; free < SPARE; limit += 1) if (!open.has(limit)) free += 1;
  await setLimit(member, String(limit));
}

/** Sets only the soft limit, which can be raised again. */
async function setLimit({ process: running }: Member, limit: string): Promise<void> {
  await run('prlimit', [`--pid=${running.pid()}`, `--nofile=${limit}:`]);
}
