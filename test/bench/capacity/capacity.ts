import { z } from 'zod';

/** Maximum number of deliveries in flight to one endpoint, and in one process of webhooks (`WEBHOOK_CONCURRENCY`). */
const IN_FLIGHT_PER_ENDPOINT = 8;
const IN_FLIGHT_PER_PROCESS = 512;
/** A process of Node uses one core. Above this share of a core, requests of a burst wait. */
const MAX_CORE_SHARE = 0.7;
/** One process may crash at any time. */
const MIN_PROCESSES = 2;
/** Connections to PostgreSQL of one process, as docs/operations.md lists them (Scaling). */
const CONNECTIONS = { gateway: 10, returns: 19, webhooks: 23 };
/** Defaults of `RETENTION_DAYS` and `WEBHOOK_LOG_DAYS`. */
const EVENT_DAYS = 7;
const LOG_DAYS = 30;
const DAY_S = 86_400;
const MONTH_DAYS = 30;

/** Number of cores by process. */
const cores = z.record(z.string(), z.number());

/** Measurements of the bench. docs/capacity.md describes them. */
export const coefficients = z.object({
  /** Day and machine. */
  source: z.string(),
  /** Cores at a rate of deliveries, the lowest rate first. Rate 0 is the idle stack. */
  points: z.array(z.object({ perSecond: z.number(), cores })).min(2),
  /** Cores while returns are processed over REST, each with one delivery. */
  returns: z.object({ perSecond: z.number(), cores }),
  /** Bytes on disk. */
  stored: z.object({
    /** A delivery with its part of the payload. It is kept for the retention of the log. */
    delivery: z.number(),
    /** An event in PostgreSQL and in Kafka. It is kept for the retention of events. */
    event: z.number(),
    record: z.number(),
    /** A return with its timeline. It is kept permanently. */
    return: z.number(),
  }),
});
export type Coefficients = z.infer<typeof coefficients>;

/** The load to plan for. */
export interface Demand {
  readonly returnsADay: number;
  readonly deliveriesPerReturn: number;
  /** Number of endpoints that share the deliveries evenly. */
  readonly endpoints: number;
  /** Time until a receiver responds. Milliseconds. */
  readonly latencyMs: number;
  /** Ratio of the busiest minutes to the mean of the day. */
  readonly peak: number;
}

/** The resources for a demand. */
export interface Plan {
  /** Deliveries per second. */
  readonly mean: number;
  readonly busiest: number;
  /** Requests in flight in the busiest minutes. Each uses a connection to a receiver. */
  readonly inFlight: number;
  /** Share of an endpoint's in-flight limit in the busiest minutes. Above 1 its deliveries wait. */
  readonly endpointUse: number;
  /** Cores in the busiest minutes, by process. `total` is their sum. */
  readonly cores: ReadonlyMap<string, number>;
  readonly processes: Readonly<Record<keyof typeof CONNECTIONS, number>>;
  readonly databaseConnections: number;
  /** GB of PostgreSQL and Kafka, without returns, which are kept permanently. */
  readonly diskGb: number;
  /** GB that each month adds permanently. */
  readonly growthGb: number;
  /** Core-hours per million deliveries, at the mean load of a day. */
  readonly coreHoursPerMillion: number;
  /** GB per million deliveries a month. */
  readonly gbPerMillion: number;
}

/**
 * Computes the resources for a demand from the measurements of the bench. docs/capacity.md has the formulas.
 *
 * @throws RangeError when a number of the demand is not above 0.
 */
export function planFor(demand: Demand, known: Coefficients): Plan {
  for (const [name, value] of Object.entries(demand)) {
    if (!(value > 0)) throw new RangeError(`${name} must be above 0`);
  }
  const returnsASecond = demand.returnsADay / DAY_S;
  const mean = returnsASecond * demand.deliveriesPerReturn;
  const busiest = mean * demand.peak;
  const inFlight = (busiest * demand.latencyMs) / 1_000;
  const busy = coresFor(busiest, returnsASecond * demand.peak, known);
  const processes = processesFor(busy, inFlight);
  const disk = diskOf(demand, known);
  return {
    mean,
    busiest,
    inFlight,
    endpointUse: inFlight / (demand.endpoints * IN_FLIGHT_PER_ENDPOINT),
    cores: busy,
    processes,
    databaseConnections:
      processes.gateway * CONNECTIONS.gateway +
      processes.returns * CONNECTIONS.returns +
      processes.webhooks * CONNECTIONS.webhooks,
    ...disk,
    coreHoursPerMillion: ((totalOf(coresFor(mean, returnsASecond, known)) / mean) * 1e6) / 3_600,
    gbPerMillion: disk.diskGb / ((mean * DAY_S * MONTH_DAYS) / 1e6),
  };
}

/** Price of a million deliveries, from the mean load and the disk. */
export function pricePerMillion(
  plan: Pick<Plan, 'coreHoursPerMillion' | 'gbPerMillion'>,
  price: { readonly coreHour: number; readonly gbMonth: number },
): number {
  return plan.coreHoursPerMillion * price.coreHour + plan.gbPerMillion * price.gbMonth;
}

/** Cores by process at these rates of deliveries and processed returns. */
export function coresFor(
  deliveries: number,
  returns: number,
  known: Coefficients,
): Map<string, number> {
  const sums = coresAt(deliveries, known.points);
  // The row that processes returns contains the known cost of the deliveries and the idle stack, so it is subtracted.
  const inRow = coresAt(known.returns.perSecond, known.points);
  for (const [name, value] of Object.entries(known.returns.cores)) {
    const each = Math.max(0, value - (inRow.get(name) ?? 0)) / known.returns.perSecond;
    sums.set(name, (sums.get(name) ?? 0) + each * returns);
  }
  sums.set('total', totalOf(sums));
  return sums;
}

/** Interpolates between the two nearest points. Above the last point cores grow in proportion to the rate. */
function coresAt(perSecond: number, points: Coefficients['points']): Map<string, number> {
  const above = points.findIndex((point) => point.perSecond >= perSecond);
  const [low, high] = above > 0 ? [points[above - 1], points[above]] : [undefined, undefined];
  if (low && high) {
    const share = (perSecond - low.perSecond) / (high.perSecond - low.perSecond);
    const between = Object.entries(high.cores).map(([name, value]) => {
      const from = low.cores[name] ?? 0;
      return [name, from + (value - from) * share] as const;
    });
    return new Map(between);
  }
  const end = above === 0 ? points[0] : points.at(-1);
  if (!end) return new Map();
  const times = above === 0 ? 1 : perSecond / end.perSecond;
  return new Map(Object.entries(end.cores).map(([name, value]) => [name, value * times]));
}

function processesFor(busy: ReadonlyMap<string, number>, inFlight: number): Plan['processes'] {
  const forCores = (name: string) =>
    Math.max(MIN_PROCESSES, Math.ceil((busy.get(name) ?? 0) / MAX_CORE_SHARE));
  return {
    gateway: forCores('gateway'),
    returns: forCores('returns'),
    webhooks: Math.max(forCores('webhooks'), Math.ceil(inFlight / IN_FLIGHT_PER_PROCESS)),
  };
}

function diskOf(
  { returnsADay, deliveriesPerReturn }: Demand,
  { stored }: Coefficients,
): Pick<Plan, 'diskGb' | 'growthGb'> {
  // An event has at least one delivery. With several subscriptions this estimate is too high.
  const deliveriesADay = returnsADay * deliveriesPerReturn;
  const bytesADay = stored.delivery * LOG_DAYS + (stored.event + stored.record) * EVENT_DAYS;
  return {
    diskGb: (deliveriesADay * bytesADay) / 1e9,
    growthGb: (returnsADay * MONTH_DAYS * stored.return) / 1e9,
  };
}

function totalOf(sums: ReadonlyMap<string, number>): number {
  return [...sums].filter(([name]) => name !== 'total').reduce((sum, [, value]) => sum + value, 0);
}
