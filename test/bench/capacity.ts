import { z } from 'zod';

/** Deliveries in flight at one endpoint, and in one process of webhooks (`WEBHOOK_CONCURRENCY`). */
const PLACES_OF_ENDPOINT = 8;
const PLACES_OF_PROCESS = 512;
/** A process of Node uses one core. Above this share of it, requests of a burst wait. */
const MOST_OF_A_CORE = 0.7;
/** One may end at any time. */
const FEWEST_PROCESSES = 2;
/** Connections to PostgreSQL of one process, as docs/operations.md lists them (section Limits). */
const CONNECTIONS = { gateway: 10, returns: 19, webhooks: 23 };
/** Defaults of `RETENTION_DAYS` and `WEBHOOK_LOG_DAYS`. */
const EVENT_DAYS = 7;
const LOG_DAYS = 30;
const DAY_S = 86_400;
const MONTH_DAYS = 30;

/** Cores by process. */
const cores = z.record(z.string(), z.number());

/** What the bench measures; see docs/capacity.md. */
export const coefficients = z.object({
  /** Day and machine. */
  source: z.string(),
  /** Cores at a rate of deliveries, the lowest first; that of rate 0 is the idle stack. */
  points: z.array(z.object({ perSecond: z.number(), cores })).min(2),
  /** Cores while returns are processed over REST, each with one delivery. */
  returns: z.object({ perSecond: z.number(), cores }),
  /** Bytes on disk. */
  stored: z.object({
    /** Of a delivery, with its part of the payload: kept for the days of the log. */
    delivery: z.number(),
    /** Of an event in PostgreSQL and in Kafka: kept for the days of events. */
    event: z.number(),
    record: z.number(),
    /** Of a return with its timeline: kept for good. */
    return: z.number(),
  }),
});
export type Coefficients = z.infer<typeof coefficients>;

/** What is to be carried. */
export interface Demand {
  readonly returnsADay: number;
  readonly deliveriesPerReturn: number;
  /** Endpoints that share the deliveries evenly. */
  readonly endpoints: number;
  /** Until a receiver has answered. Milliseconds. */
  readonly latencyMs: number;
  /** The busiest minutes to the mean of the day. */
  readonly peak: number;
}

/** What it takes. */
export interface Plan {
  /** Deliveries a second. */
  readonly mean: number;
  readonly busiest: number;
  /** Requests under way in the busiest minutes: connections to receivers that are in use. */
  readonly inFlight: number;
  /** Share of an endpoint's places that are in use then; above 1 its deliveries wait. */
  readonly endpointUse: number;
  /** In the busiest minutes, by process; `total` is their sum. */
  readonly cores: ReadonlyMap<string, number>;
  readonly processes: Readonly<Record<keyof typeof CONNECTIONS, number>>;
  readonly databaseConnections: number;
  /** GB of PostgreSQL and Kafka, without the permanent data of returns. */
  readonly diskGb: number;
  /** GB that each month adds for good. */
  readonly growthGb: number;
  /** Core-hours of a day's mean load for each million deliveries. */
  readonly coreHoursPerMillion: number;
  /** GB for each million deliveries a month. */
  readonly gbPerMillion: number;
}

/**
 * The resources for a demand, from the measurements of the bench. docs/capacity.md has the formulas.
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
    endpointUse: inFlight / (demand.endpoints * PLACES_OF_ENDPOINT),
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

/** Cores by process at this rate of deliveries and processed returns. */
export function coresFor(
  deliveries: number,
  returns: number,
  known: Coefficients,
): Map<string, number> {
  const sums = coresAt(deliveries, known.points);
  // The cost of the deliveries and the idle stack is known, so it is subtracted from the row that processes returns.
  const inRow = coresAt(known.returns.perSecond, known.points);
  for (const [name, value] of Object.entries(known.returns.cores)) {
    const each = Math.max(0, value - (inRow.get(name) ?? 0)) / known.returns.perSecond;
    sums.set(name, (sums.get(name) ?? 0) + each * returns);
  }
  sums.set('total', totalOf(sums));
  return sums;
}

/** On the line between the two nearest points; above the last one, as many times its cores as its rate. */
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
    Math.max(FEWEST_PROCESSES, Math.ceil((busy.get(name) ?? 0) / MOST_OF_A_CORE));
  return {
    gateway: forCores('gateway'),
    returns: forCores('returns'),
    webhooks: Math.max(forCores('webhooks'), Math.ceil(inFlight / PLACES_OF_PROCESS)),
  };
}

function diskOf(
  { returnsADay, deliveriesPerReturn }: Demand,
  { stored }: Coefficients,
): Pick<Plan, 'diskGb' | 'growthGb'> {
  // An event has at least one delivery: with several subscriptions this is more than there will be.
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
