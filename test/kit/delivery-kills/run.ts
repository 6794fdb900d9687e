import { deepStrictEqual } from 'node:assert/strict';
import type pg from 'pg';
import { sampleEvent } from '../../../services/contract/sample-event.ts';
import type { Telemetry } from '../../../services/platform/telemetry.ts';
import { createRetryClock } from '../../../services/webhooks/delivery/attempt/retry-clock.ts';
import { type Death, mortal, WHENS } from '../processing-kills/mortal.ts';
import { randomOf } from '../random.ts';
import { newShop } from '../services/running-service.ts';
import { until } from '../until.ts';
import { newSubscription } from '../webhooks/subscription.ts';
import { live, type World } from './life.ts';
import { createSink, type Request } from './sink.ts';

export interface DeliveryKills {
  /** A separate database of webhooks. */
  readonly pool: pg.Pool;
  readonly telemetry: Telemetry;
  /** Number of trials. Each kills at another point, and one in four kills a second time. */
  readonly points: number;
  readonly seed: number;
}

export interface DeliveryKillReport {
  /** One before, one during and one after each step. */
  readonly allPoints: number;
  /** Number of trials whose kill took effect. */
  readonly struck: number;
}

const URLS = {
  plain: 'https://a.example/plain',
  failing: 'https://a.example/failing',
  replayed: 'https://a.example/replayed',
};
const EVENTS = 2;
const DIES_AGAIN = 0.25;

/**
 * Kills a process of webhooks at its awaits: each connection, statement and request while it matches events,
 * sends, records results, retries and replays. After each trial every delivery has arrived, once more for
 * each death at most, with one id and the same bytes; every result is recorded.
 *
 * @throws Error naming seed and point of the first trial after which that is not so.
 */
export async function killDelivery(o: DeliveryKills): Promise<DeliveryKillReport> {
  const random = randomOf(o.seed);
  const { steps } = await runTrial(o, []);
  const all = Array.from({ length: steps }, (_, nth) =>
    WHENS.map((when): Death => ({ at: nth + 1, when })),
  ).flat();
  let struck = 0;
  for (const death of random.shuffled(all).slice(0, o.points)) {
    const again = random.next() < DIES_AGAIN ? [death] : [];
    const result = await runTrial(o, [death, ...again]).catch((cause: Error) => {
      const where = `killed ${death.when} step ${death.at}, ${again.length} more`;
      throw new Error(`seed ${o.seed}, ${where}: ${cause.message}`, { cause });
    });
    if (result.deaths > 0) struck += 1;
  }
  return { allPoints: all.length, struck };
}

async function runTrial(
  { pool, telemetry }: DeliveryKills,
  deaths: readonly Death[],
): Promise<{ readonly steps: number; readonly deaths: number }> {
  const shopId = newShop();
  for (const url of Object.values(URLS)) await newSubscription(pool, shopId, { url });
  const sink = createSink(URLS.failing);
  const events = Array.from({ length: EVENTS }, () => sampleEvent('return.closed', shopId));
  const replayed = () => sink.requests.find(({ url }) => url === URLS.replayed)?.webhookId;
  const world: World = {
    ...{ pool, telemetry, sink, shopId, events, replayed },
    clock: createRetryClock(),
  };
  const lives = [];
  for (const death of [...deaths, undefined]) {
    const life = mortal(death);
    lives.push(life);
    const lived = live(life, world);
    // Errors of a dead process are ignored.
    await (death ? lived.catch(() => {}) : lived);
    await life.finished();
    await untilQuiet(pool);
    await pool.query(`update leases set expires_at = now() - interval '1 second'`);
  }
  const died = lives.filter(({ isDead }) => isDead).length;
  await judge(world, died);
  // Hides the queues from the next trial.
  await pool.query('update subscription_queues set is_open = false, ready_at = null');
  return { steps: lives[0]?.steps ?? 0, deaths: died };
}

/** Connections of the dead are closed by the server once their last statement is over. */
async function untilQuiet(pool: pg.Pool): Promise<void> {
  await until(async () => {
    const { rowCount } = await pool.query(
      `select from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'
          and backend_type = 'client backend'`,
    );
    return rowCount === 0;
  });
}

async function judge({ pool, shopId, sink, events }: World, deaths: number): Promise<void> {
  for (const [name, url] of Object.entries(URLS)) {
    for (const event of events) {
      const own = sink.requests.filter((one) => one.url === url && one.eventId === event.eventId);
      const isReplayed = name === 'replayed' && own[0]?.webhookId === firstOf(sink.requests);
      judgeRequests(`${name} ${event.eventId}`, own, { least: isReplayed ? 2 : 1, deaths });
    }
  }
  const { rows } = await pool.query(STATE, [shopId]);
  deepStrictEqual(rows[0], {
    ...{ queued: 0, deliveries: EVENTS * 3, delivered: EVENTS * 3, consumed: EVENTS },
    ...{ failures: 0, unlogged: 0 },
  });
}

/** Of the delivery that is replayed. */
function firstOf(requests: readonly Request[]): string | undefined {
  return requests.find(({ url }) => url === URLS.replayed)?.webhookId;
}

function judgeRequests(
  name: string,
  own: readonly Request[],
  { least, deaths }: { readonly least: number; readonly deaths: number },
): void {
  const accepted = own.filter((one) => one.accepted).length;
  if (accepted < least) throw new Error(`${name}: arrived ${accepted} times of ${least}`);
  if (accepted > least + deaths) {
    throw new Error(`${name}: arrived ${accepted} times, with ${deaths} deaths`);
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
