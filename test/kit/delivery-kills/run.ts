import { deepStrictEqual } from 'node:assert/strict';
import type pg from 'pg';
import { sampleEvent } from '../../../services/contract/sample-event.ts';
import type { Telemetry } from '../../../services/platform/telemetry/telemetry.ts';
import { createRetryClock } from '../../../services/webhooks/delivery/attempt/retry-schedule.ts';
import { untilIdle } from '../postgres/until-idle.ts';
import { randomOf } from '../random.ts';
import { newShop } from '../services/running-service.ts';
import { type Kill, simulateProcess, WHENS } from '../simulated-process.ts';
import { newSubscription } from '../webhooks/subscription.ts';
import { createSink, type Request } from './sink.ts';
import { runOnce, type Trial } from './webhooks-process.ts';

export interface DeliveryKills {
  /** A separate database of webhooks. */
  readonly pool: pg.Pool;
  readonly telemetry: Telemetry;
  /** Number of trials. Each kills at another point, and one in four kills a second time. */
  readonly points: number;
  readonly seed: number;
}

export interface DeliveryKillReport {
  /** Number of points: before, during and after each step. */
  readonly allPoints: number;
  /** Number of trials whose kill came before the process had finished. */
  readonly killed: number;
}

const URLS = {
  plain: 'https://a.example/plain',
  failing: 'https://a.example/failing',
  replayed: 'https://a.example/replayed',
};
const EVENTS = 2;
const SECOND_KILL_PROBABILITY = 0.25;

/**
 * Kills a process of webhooks at its awaits: each connection, statement and request while it fans out events, sends,
 * records results, retries and replays. Asserts after each trial that every delivery arrived with one id and the same
 * bytes, at most once more for each kill, and that every result is recorded.
 *
 * @throws Error with seed and point of the first trial that fails.
 */
export async function killDelivery(o: DeliveryKills): Promise<DeliveryKillReport> {
  const random = randomOf(o.seed);
  const { steps } = await runTrial(o, []);
  const points = Array.from({ length: steps }, (_, nth) =>
    WHENS.map((when): Kill => ({ at: nth + 1, when })),
  ).flat();
  let killed = 0;
  for (const kill of random.shuffled(points).slice(0, o.points)) {
    const again = random.next() < SECOND_KILL_PROBABILITY ? [kill] : [];
    const result = await runTrial(o, [kill, ...again]).catch((cause: Error) => {
      const where = `killed ${kill.when} step ${kill.at}, ${again.length} more`;
      throw new Error(`seed ${o.seed}, ${where}: ${cause.message}`, { cause });
    });
    if (result.kills > 0) killed += 1;
  }
  return { allPoints: points.length, killed };
}

async function runTrial(
  { pool, telemetry }: DeliveryKills,
  kills: readonly Kill[],
): Promise<{ readonly steps: number; readonly kills: number }> {
  const shopId = newShop();
  for (const url of Object.values(URLS)) await newSubscription(pool, shopId, { url });
  const sink = createSink(URLS.failing);
  const events = Array.from({ length: EVENTS }, () => sampleEvent('return.closed', shopId));
  const replayed = () => sink.requests.find(({ url }) => url === URLS.replayed)?.webhookId;
  const trial: Trial = {
    pool,
    telemetry,
    sink,
    shopId,
    events,
    replayed,
    clock: createRetryClock(),
  };
  const processes = [];
  for (const kill of [...kills, undefined]) {
    const simulated = simulateProcess(kill);
    processes.push(simulated);
    const work = runOnce(simulated, trial);
    // A killed process fails with any error.
    await (kill ? work.catch(() => {}) : work);
    await simulated.finished();
    await untilIdle(pool);
    await pool.query(`update leases set expires_at = now() - interval '1 second'`);
  }
  const died = processes.filter(({ isKilled }) => isKilled).length;
  await judge(trial, died);
  // Hides the queues from the next trial.
  await pool.query('update subscription_queues set is_open = false, ready_at = null');
  return { steps: processes[0]?.steps ?? 0, kills: died };
}

async function judge({ pool, shopId, sink, events }: Trial, kills: number): Promise<void> {
  for (const [name, url] of Object.entries(URLS)) {
    for (const event of events) {
      const own = sink.requests.filter((one) => one.url === url && one.eventId === event.eventId);
      const isReplayed = name === 'replayed' && own[0]?.webhookId === replayedId(sink.requests);
      judgeRequests(`${name} ${event.eventId}`, own, { least: isReplayed ? 2 : 1, kills });
    }
  }
  const { rows } = await pool.query(STATE, [shopId]);
  deepStrictEqual(rows[0], {
    queued: 0,
    deliveries: EVENTS * 3,
    delivered: EVENTS * 3,
    consumed: EVENTS,
    failures: 0,
    unlogged: 0,
  });
}

/** The id of the delivery that is replayed. */
function replayedId(requests: readonly Request[]): string | undefined {
  return requests.find(({ url }) => url === URLS.replayed)?.webhookId;
}

function judgeRequests(
  name: string,
  own: readonly Request[],
  { least, kills }: { readonly least: number; readonly kills: number },
): void {
  const accepted = own.filter((one) => one.accepted).length;
  if (accepted < least) throw new Error(`${name}: arrived ${accepted} times of ${least}`);
  if (accepted > least + kills) {
    throw new Error(`${name}: arrived ${accepted} times after ${kills} kills`);
  }
  for (const field of ['webhookId', 'sha256'] as const) {
    const values = new Set(own.map((one) => one[field]));
    if (values.size !== 1) throw new Error(`${name}: ${values.size} values of ${field}`);
  }
}

const STATE = `
select (select count(*)::int from queue where shop_id = $1) as queued,
       (select count(*)::int from deliveries where shop_id = $1) as deliveries,
       (select count(*)::int from deliveries where shop_id = $1 and ended = 'delivered') as delivered,
       (select count(*)::int from consumed_events where shop_id = $1) as consumed,
       (select sum(failures)::int from subscriptions where shop_id = $1) as failures,
       (select count(*)::int from deliveries d where d.shop_id = $1 and not exists (
          select from attempts a where a.shop_id = d.shop_id and a.delivery_id = d.id)) as unlogged`;
