import { LOCAL_ACTOR } from '../../../deploy/local/clients.ts';
import { SCHEMAS } from '../../../services/platform/postgres/schemas.ts';
import { type Platform, startPlatform } from '../ledger/platform.ts';
import { repeatCall } from '../ledger/repeat-call.ts';
import { repeated, startShoppers, submitted } from '../ledger/shoppers.ts';
import { type Row, type RowContext, type RowResult, seconds, someOf } from '../row.ts';
import { type Standby, startStandby } from '../system/standby.ts';
import type { System } from '../system/system.ts';
import { nowMs, waitFor } from '../wait.ts';
import { type Trial, withTrial } from './trial.ts';

const SUBSCRIPTIONS = { 'return.updated': 1, 'return.closed': 1 };
/** Returns that exist before the replication ends. They are changed before and after the promotion. */
const KEPT = 5;
/** More than the 32 ids by which PostgreSQL writes a sequence ahead. */
const LOST = 45;
const AFTER = 60;
const TIMEOUT_MS = 90_000;

/**
 * Promotes an asynchronous standby without the last commits, under load. The first time, the server does not tell its
 * timeline: new returns get the ids of lost ones, and only the keys of their effects differ.
 */
export const failoverRow: Row = {
  name: 'failover',
  fault: 'an asynchronous standby promoted without the last commits, under load',
  mustHold:
    'each shopper of a stored return paid exactly once, nobody twice; every stored event arrives; higher sequences than before',
  budgetMs: { short: 300_000, full: 900_000 },
  leavesMess: true,
  async run(context) {
    const rounds = context.full ? 4 : 2;
    const results: RowResult[] = [];
    for (let round = 0; round < rounds; round += 1) {
      results.push(await failOver(context, { tellsTimeline: round % 2 === 1 }));
    }
    const sum = (of: (one: RowResult) => number) => results.reduce((all, one) => all + of(one), 0);
    return {
      trials: rounds,
      inFlight: sum((one) => one.inFlight),
      lost: sum((one) => one.lost),
      duplicates: sum((one) => one.duplicates),
      unexplained: 0,
      figures: results.flatMap((one) => one.figures),
      problems: results.flatMap((one) => one.problems),
      doubts: results.flatMap((one) => one.doubts),
    };
  },
};

function failOver(context: RowContext, o: { readonly tellsTimeline: boolean }): Promise<RowResult> {
  return withTrial(context, { subscriptions: SUBSCRIPTIONS }, async (trial) => {
    const { system } = context;
    const platform = await startPlatform();
    const shop = { shopId: BigInt(trial.shop.id), actor: LOCAL_ACTOR };
    await repeatCall(system, 'connecting the platform', (options) =>
      system.services.commerce.connect({ ...shop, url: platform.url }, options),
    );
    const standby = await startStandby(system);
    const shoppers = startShoppers(system, trial.shop);
    let replaced = false;
    try {
      const kept = await Promise.all(
        Array.from({ length: KEPT }, () => submitted(system, trial.shop)),
      );
      await standby.catchUp();
      await standby.disconnect();
      await untilPaid(platform, platform.payments().length + LOST);
      const before = await relabelled(system, trial, { returns: kept, round: 'before' });
      const lostPayments = platform.payments().length;
      await system.database.crash();
      const began = nowMs();
      await promoted(standby, o);
      await untilPaid(platform, lostPayments + AFTER);
      const back = nowMs() - began;
      const after = await relabelled(system, trial, { returns: kept, round: 'after' });
      await shoppers.stop();
      const judged = await judgeAll({ system, trial, platform, ...o });
      await standby.replacePrimary();
      replaced = true;
      const figure = o.tellsTimeline ? 'promoted' : 'promoted without a timeline';
      return {
        ...judged,
        problems: [...judged.problems, ...(o.tellsTimeline ? notAbove(before, after) : [])],
        inFlight: lostPayments,
        figures: [`${figure}: ${AFTER} returns closed after ${seconds(back)}`, ...judged.figures],
      };
    } finally {
      await shoppers.stop().catch(() => {});
      if (!replaced) await standby.stop();
      await platform.stop();
    }
  });
}

/** Promotes the standby at the address of the lost primary. */
async function promoted(standby: Standby, o: { readonly tellsTimeline: boolean }): Promise<void> {
  if (o.tellsTimeline) {
    await standby.takeAddress();
    // Connections to a standby are rejected. Otherwise they would outlive the promotion.
    await waitFor(() => standby.connections() > 0, {
      what: 'a process connects to the standby',
      withinMs: TIMEOUT_MS,
    });
    return standby.promote();
  }
  await standby.promote();
  for (const { name } of SCHEMAS) {
    await standby.query(`update ${name}.server_timeline set timeline = ${name}.current_timeline()`);
  }
  return standby.takeAddress();
}

function untilPaid(platform: Platform, count: number): Promise<unknown> {
  const what = `${count} payments at the platform`;
  return waitFor(() => platform.payments().length >= count, { what, withinMs: TIMEOUT_MS });
}

/** Changes the returns several times, and waits until the receiver has it. Returns their highest sequences. */
async function relabelled(
  system: System,
  trial: Trial,
  o: { readonly returns: readonly bigint[]; readonly round: string },
): Promise<ReadonlyMap<bigint, number>> {
  const label = async (returnId: bigint, nth: number): Promise<void> => {
    const about = { shopId: BigInt(trial.shop.id), actor: LOCAL_ACTOR, returnId };
    const idempotencyKey = `failover-${returnId}-${o.round}-${nth}`;
    const request = {
      ...about,
      idempotencyKey,
      carrier: 'Sample Post',
      trackingNumber: idempotencyKey,
    };
    await repeated(() => system.services.returns.recordLabel(request));
  };
  const counts = sequencesOf(trial, system);
  for (let nth = 0; nth < 3; nth += 1) {
    await Promise.all(o.returns.map((returnId) => label(returnId, nth)));
  }
  const has = async (): Promise<boolean> => {
    await system.sink.flush();
    const now = sequencesOf(trial, system);
    return o.returns.every((id) => (now.get(id)?.length ?? 0) >= (counts.get(id)?.length ?? 0) + 3);
  };
  await waitFor(has, { what: 'the receiver has the changes', withinMs: TIMEOUT_MS });
  const seen = sequencesOf(trial, system);
  return new Map(o.returns.map((id) => [id, (seen.get(id) ?? []).at(-1) ?? 0]));
}

/** The sequences that the receiver of `return.updated` has got for each return, in the order of their arrival. */
function sequencesOf({ shop }: Trial, { sink }: System): ReadonlyMap<bigint, readonly number[]> {
  const paths = shop.subscriptions.filter(({ trigger }) => trigger === 'return.updated');
  const accepted = paths
    .flatMap(({ path }) => sink.arrivals.at(path))
    .filter(({ accepted: isAccepted }) => isAccepted);
  const byReturn = Map.groupBy(accepted, ({ about }) => BigInt(Number(about?.returnId)));
  return new Map([...byReturn].map(([id, all]) => [id, all.map(({ sequence }) => sequence)]));
}

/** What the receiver would ignore, because it has got a higher sequence of a lost change. */
function notAbove(
  before: ReadonlyMap<bigint, number>,
  after: ReadonlyMap<bigint, number>,
): string[] {
  return [...before].flatMap(([id, known]) => {
    const next = after.get(id) ?? 0;
    return next > known ? [] : [`return ${id}: sequence ${next} after ${known}`];
  });
}

interface Judged {
  readonly system: System;
  readonly trial: Trial;
  readonly platform: Platform;
  readonly tellsTimeline: boolean;
}

/** Processes what is still open, and compares the stored returns with the platform and the receiver. */
async function judgeAll(o: Judged): Promise<RowResult> {
  const { platform, tellsTimeline } = o;
  const stored = await allClosed(o);
  const paid = platform.payments();
  const byOrder = Map.groupBy(paid, ({ orderId }) => orderId);
  const unpaid = stored.filter(({ orderId }) => byOrder.get(Number(orderId))?.length !== 1);
  const twice = [...byOrder].filter(([, payments]) => payments.length > 1);
  const ordersOf = Map.groupBy(paid, ({ returnId }) => returnId);
  const reused = stored.filter(({ id, orderId }) =>
    ordersOf.get(Number(id))?.some((one) => one.orderId !== Number(orderId)),
  ).length;
  // Without a timeline, events may also get the positions of lost ones.
  const lost = tellsTimeline ? await missingEvents(o) : [];
  return {
    trials: 1,
    inFlight: 0,
    lost: lost.length,
    duplicates: 0,
    unexplained: 0,
    figures: [`${stored.length} returns stored, ${paid.length - stored.length} lost and paid`],
    problems: [
      ...someOf(
        unpaid.map(({ id, orderId }) => `return ${id} of order ${orderId} is not paid once`),
      ),
      ...someOf(twice.map(([id, { length }]) => `order ${id} was paid ${length} times`)),
      ...someOf(lost.map((id) => `event ${id} did not arrive`)),
      ...(tellsTimeline && reused > 0 ? [`${reused} lost ids were given again`] : []),
    ],
    doubts: tellsTimeline || reused > 0 ? [] : ['no lost id was given again'],
  };
}

interface StoredReturn {
  readonly id: bigint;
  readonly orderId: bigint;
  readonly state: string;
  readonly processing: boolean;
}

async function allClosed({ system, trial }: Judged): Promise<readonly StoredReturn[]> {
  const shop = { shopId: BigInt(trial.shop.id), actor: LOCAL_ACTOR };
  const read = async (): Promise<StoredReturn[]> => {
    const { rows } = await system.pool.query<StoredReturn>(
      `select r.id, o.provider_order_id as "orderId", r.state, r.processing
         from returns.returns r join returns.orders o on o.shop_id = r.shop_id and o.id = r.order_id
        where r.shop_id = $1`,
      [shop.shopId],
    );
    return rows;
  };
  for (const { id: returnId, state, processing } of await read()) {
    if (state !== 'open' || processing) continue;
    await repeated(() =>
      system.services.returns.processReturn({ ...shop, returnId, source: 'api' }),
    );
  }
  const closed = async () => (await read()).every(({ state }) => state === 'closed');
  await waitFor(closed, { what: 'every stored return is closed', withinMs: TIMEOUT_MS });
  return read();
}

/** Ids of stored events that no receiver has got in time. */
async function missingEvents({ system, trial }: Judged): Promise<string[]> {
  const { rows } = await system.pool.query<{ id: string; trigger: string }>(
    'select event_id as id, trigger from returns.events where shop_id = $1',
    [BigInt(trial.shop.id)],
  );
  let missing: string[] = [];
  const haveArrived = async (): Promise<boolean> => {
    await system.sink.flush();
    missing = trial.shop.subscriptions.flatMap(({ trigger, path }) => {
      const got = new Set(system.sink.arrivals.at(path).map(({ eventId }) => eventId));
      return rows.filter((one) => one.trigger === trigger && !got.has(one.id)).map(({ id }) => id);
    });
    return missing.length === 0;
  };
  await waitFor(haveArrived, { what: 'every event arrived', withinMs: TIMEOUT_MS }).catch(() => {});
  return missing;
}
