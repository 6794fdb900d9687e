import { setTimeout as sleep } from 'node:timers/promises';
import { addBacklog, dropBacklog } from '../backlog.ts';
import { startHooks } from '../ends/hooks.ts';
import type { Figure } from '../figure.ts';
import { startMeter, type Work, withoutEnds } from '../measure.ts';
import { atLeast, atMost, type Bench, figure, type Row } from '../row.ts';
import { resetStatements, type Statement, statementsSince } from '../statements.ts';

/** Number of shops with one endpoint each. The backlog is spread over them. */
const SHOPS = 50;
/** Interval at which delivered deliveries are replaced, so that the backlog keeps its size. Milliseconds. */
const REFILL_MS = 100;

interface Claims {
  readonly perCpuSecond: number;
  /** CPU without sink and publisher. */
  readonly perProductSecond: number;
  readonly pagesAClaim: number;
  readonly rowsAClaim: number;
}

/** The cost of a constant backlog for the dispatcher. */
export const backlog: Row = {
  name: 'backlog',
  about: `A backlog over ${SHOPS} shops with an endpoint each, kept at 10^3 and then at 10^6 due deliveries by refilling what was delivered; the work of refilling is not counted. A claim is the statement that reads due deliveries.`,
  async run(bench) {
    const small = await claimsAt(bench, 1_000);
    const large = await claimsAt(bench, bench.quick ? 50_000 : 1_000_000);
    return figuresOf(small, large);
  },
};

function figuresOf(small: Claims, large: Claims): Figure[] {
  const rows = (one: Claims) => one.rowsAClaim.toFixed(1);
  return [
    // A large backlog fills each claim, so claims differ in size. Therefore pages are counted per row.
    atMost(1.3, {
      name: 'pages for each row read, large to small backlog',
      value: large.pagesAClaim / large.rowsAClaim / (small.pagesAClaim / small.rowsAClaim),
    }),
    figure({
      name: 'pages a claim, large to small backlog',
      value: large.pagesAClaim / small.pagesAClaim,
      more: `${large.pagesAClaim.toFixed(0)} and ${small.pagesAClaim.toFixed(0)}, for ${rows(large)} and ${rows(small)} rows`,
    }),
    atLeast(0.8, {
      name: 'deliveries a CPU-second, large to small backlog',
      value: large.perCpuSecond / small.perCpuSecond,
      more: `${large.perCpuSecond.toFixed(0)} and ${small.perCpuSecond.toFixed(0)}`,
    }),
    figure({
      name: 'deliveries a CPU-second without sink and publisher, large to small backlog',
      value: large.perProductSecond / small.perProductSecond,
      more: `${large.perProductSecond.toFixed(0)} and ${small.perProductSecond.toFixed(0)}`,
    }),
  ];
}

async function claimsAt(bench: Bench, size: number): Promise<Claims> {
  const { platform } = bench;
  await platform.run(['returns', 'webhooks']);
  const shops = bench.newShops(SHOPS);
  const hooks = await startHooks(bench, shops);
  try {
    await addBacklog(platform.admin, shops, size);
    const standFor = async (ms: number) => {
      const before = (await hooks.arrivals()).received;
      let refilled = before;
      for (const end = performance.now() + ms; performance.now() < end; await sleep(REFILL_MS)) {
        const { received } = await hooks.arrivals();
        await addBacklog(platform.admin, shops, received - refilled);
        refilled = received;
      }
      return refilled - before;
    };
    await standFor(bench.quick ? 3_000 : 15_000);
    await resetStatements(platform.admin);
    const stop = await startMeter(platform, hooks.both);
    const delivered = await standFor(bench.quick ? 6_000 : 40_000);
    const work = await stop();
    const claim = claimOf(await statementsSince(platform.admin));
    return {
      perCpuSecond: delivered / (work.total - refilling(work)),
      perProductSecond: delivered / (withoutEnds(work) - refilling(work)),
      pagesAClaim: claim.buffers / claim.calls,
      rowsAClaim: claim.rows / claim.calls,
    };
  } finally {
    await platform.run([]);
    await dropBacklog(platform.admin);
    await hooks.stop();
  }
}

/** CPU time of the refilling statements. CPU-seconds. */
function refilling({ byKind }: Work): number {
  return byKind.get('bench') ?? 0;
}

/** The only statement that reads the queue together with the bodies. */
function claimOf(statements: readonly Statement[]): Statement {
  const claim = statements
    .filter(
      ({ text }) => /^\s*(with|select)\b/i.test(text) && !/\b(insert|update|delete)\b/i.test(text),
    )
    .find(({ text }) => /\bqueue\b/.test(text) && /\bpayloads\b/.test(text));
  if (!claim || claim.calls === 0) throw new Error('no statement read the queue');
  return claim;
}
