import type pg from 'pg';
import { receiverNetwork } from '../../platform/outbound/guard.ts';
import { within } from '../../platform/process/within.ts';
import type { Logger } from '../../platform/telemetry/log.ts';
import { logSeldom } from '../../platform/telemetry/log-seldom.ts';

/** How long a network stays proven after its last 2xx. Days. */
export const PROVEN_DAYS = 30;
const ATTEMPTS_PER_MINUTE = 10;
const BYTES_PER_HOUR = 1024 ** 2;
/** How long this process relies on what it has read or written. Milliseconds. */
const KNOWN_MS = 86_400_000;
/** How long a network is not asked for again after it reached its limit. Milliseconds. */
const BLOCKED_MS = 60_000;
/** Time limit of a statement. Then the attempt goes without a limit. Milliseconds. */
const STATEMENT_MS = 1_000;
const LOG_EVERY_MS = 10_000;
/** Maximum number of networks in each map in memory. */
const MAX_NETWORKS = 20_000;

/** The request was not sent, because its receiver has never answered 2xx, and is at its limit. */
export class NetworkLimited extends Error {
  override readonly name = 'NetworkLimited';
  readonly network: string;
  /** Identifies the limit, for {@link NetworkLimit.waitMs}. */
  readonly limit: string;

  constructor(network: string, limit: string) {
    super('the receiver has not answered 2xx yet, and is at its limit');
    this.network = network;
    this.limit = limit;
  }
}

export interface NetworkLimitOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  /** A clock that never goes back. Milliseconds. */
  readonly nowMs: () => number;
}

/**
 * Limits what receivers get that have never answered 2xx, so that nobody can use our deliveries to flood a stranger.
 * It counts by {@link receiverNetwork}, over all shops, subscriptions and processes, because one victim has many names
 * and a stranger many webhooks. The first attempt always goes. Then at most ten attempts a minute go, with bodies of at
 * most 1 MiB an hour, and one larger body an hour. The minute and the hour begin with their first attempt.
 *
 * A 2xx proves a network, and it has no limit then, until {@link PROVEN_DAYS} have passed without another one. Proofs
 * are stored, so that they hold for all processes and after a restart. Only attempts at networks that this process does
 * not know need a statement: once a day for each proven one. Origins that the operator allows
 * (`WEBHOOK_ALLOWED_ORIGINS`, such as loopback) have no limit: the sender does not ask for them, so that retries of
 * local receivers keep their schedule.
 */
export class NetworkLimit {
  readonly #o: NetworkLimitOptions;
  /** Proven networks: until when this is known, and whether the proof of this day is stored. */
  readonly #proven = new Map<string, { readonly untilMs: number; isStored: boolean }>();
  /** Limits that were reached, and until when no attempt asks for them. */
  readonly #blocked = new Map<string, number>();
  readonly #seldom = logSeldom(LOG_EVERY_MS);
  #statements = 0;
  /** Whether the last statement failed, or took too long. */
  #isFailing = false;
  #onProven: (network: string) => void = () => {};

  constructor(o: NetworkLimitOptions) {
    this.#o = o;
  }

  /** Sets the function that is called when a network is proven. */
  onProven(listener: (network: string) => void): void {
    this.#onProven = listener;
  }

  /**
   * Takes one attempt from the limit. Attempts go without a limit while the statement fails or takes longer than
   * {@link STATEMENT_MS}, because an outage of ours must not delay them. A limit that was reached before still holds.
   *
   * @param bytes length of the body.
   * @throws NetworkLimited when the attempt must wait.
   */
  async take(address: string, bytes: number): Promise<void> {
    const network = receiverNetwork(address);
    if (this.#isProven(network)) return;
    const limit = bytes > BYTES_PER_HOUR ? `${network} large` : network;
    if (this.waitMs(limit) > 0) throw new NetworkLimited(network, limit);
    const isLarge = bytes > BYTES_PER_HOUR;
    const values = [network, isLarge ? 0 : bytes, isLarge];
    const rows = await this.#ask<Taken>({ name: 'take-attempt', text: TAKE, values });
    const taken = rows?.[0];
    if (taken?.isProven) this.#note(network, taken.isStored);
    // It may have been proven during the statement.
    if (taken?.isTaken || this.#isProven(network)) return;
    if (taken) put(this.#blocked, limit, this.#o.nowMs() + BLOCKED_MS);
    // Without an answer, only a limit holds that others have reached during the statement.
    else if (this.waitMs(limit) === 0) return;
    throw new NetworkLimited(network, limit);
  }

  /** How long attempts must wait that reached this limit; 0 when they may try again. Milliseconds. */
  waitMs(limit: string): number {
    const waitMs = (this.#blocked.get(limit) ?? 0) - this.#o.nowMs();
    if (waitMs <= 0) this.#blocked.delete(limit);
    return Math.max(0, waitMs);
  }

  /** Must be called when a request to this address got a 2xx. Stores this in the background. */
  proved(address: string): void {
    const network = receiverNetwork(address);
    if (this.#isProven(network) && this.#proven.get(network)?.isStored) return;
    const known = this.#note(network, true);
    void this.#ask({ name: 'prove-network', text: PROVE, values: [network] }).then((rows) => {
      // If it was not stored, the next 2xx stores it.
      known.isStored = rows !== undefined;
    });
  }

  #isProven(network: string): boolean {
    const known = this.#proven.get(network);
    return known !== undefined && known.untilMs > this.#o.nowMs();
  }

  #note(network: string, isStored: boolean) {
    const known = { untilMs: this.#o.nowMs() + KNOWN_MS, isStored };
    put(this.#proven, network, known);
    this.#blocked.delete(network);
    this.#blocked.delete(`${network} large`);
    this.#onProven(network);
    return known;
  }

  /**
   * Returns undefined when the statement fails or takes too long. Until one succeeds, only one at a time is tried, so
   * that they do not keep the connections from the results.
   */
  async #ask<R extends pg.QueryResultRow>(query: pg.QueryConfig): Promise<R[] | undefined> {
    if (this.#isFailing && this.#statements > 0) return undefined;
    this.#statements += 1;
    let rows: R[] | undefined;
    const asking = this.#o.pool
      .query<R>(query)
      .then((result) => {
        rows = result.rows;
      })
      .finally(() => {
        this.#statements -= 1;
      });
    const failure = await within(STATEMENT_MS, asking).then(
      (isInTime) => (isInTime ? undefined : new Error('too slow')),
      (error: unknown) => error,
    );
    this.#isFailing = failure !== undefined;
    if (failure !== undefined)
      this.#seldom((statements) =>
        this.#o.logger.warn({ err: failure, statements }, 'receivers not limited'),
      );
    return rows;
  }
}

/** Sets a value. Deletes the oldest one when there are too many. */
function put<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > MAX_NETWORKS && oldest !== undefined) map.delete(oldest);
}

interface Taken {
  readonly isProven: boolean;
  /** Whether the proof was stored within the last day. */
  readonly isStored: boolean;
  /** Whether the attempt is within the limit, and counted. */
  readonly isTaken: boolean;
}

// Whether a period has not ended. One that began in the future was set before the clock of the database was set back.
const runs = (column: string, period: string): string =>
  `(a.${column} between now() - interval '${period}' and now() + interval '${period}')`;
const MINUTE_RUNS = runs('minute_at', '1 minute');
const HOUR_RUNS = runs('hour_at', '1 hour');

const TAKE = `
with proven as (
  select proven_at > now() - interval '1 day' as is_stored from receiver_networks
   where network = $1 and proven_at > now() - interval '${PROVEN_DAYS} days'
), taken as (
  insert into receiver_networks as a (network, bytes, large_at)
  select $1, $2::integer, case when $3::boolean then now() end where not exists (select from proven)
  on conflict (network) do update
     set minute_at = case when ${MINUTE_RUNS} then a.minute_at else now() end,
         attempts = case when ${MINUTE_RUNS} then a.attempts + 1 else 1 end,
         hour_at = case when ${HOUR_RUNS} then a.hour_at else now() end,
         bytes = case when ${HOUR_RUNS} then a.bytes + excluded.bytes else excluded.bytes end,
         large_at = coalesce(excluded.large_at, a.large_at)
   where (a.attempts < ${ATTEMPTS_PER_MINUTE} or not ${MINUTE_RUNS})
     and (excluded.bytes = 0 or a.bytes + excluded.bytes <= ${BYTES_PER_HOUR} or not ${HOUR_RUNS})
     and (excluded.large_at is null or a.large_at is null or not ${runs('large_at', '1 hour')})
  returning 1
)
select exists (select from proven) as "isProven", coalesce((select is_stored from proven), false) as "isStored",
       exists (select from taken) as "isTaken"`;

const PROVE = `
insert into receiver_networks (network, attempts, bytes, proven_at) values ($1, 0, 0, now())
on conflict (network) do update set proven_at = now()`;
