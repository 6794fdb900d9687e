import { describe, expect, test } from '@jest/globals';
import { type Coefficients, coresFor, type Demand, planFor, pricePerMillion } from './capacity.ts';

/** Round numbers instead of measured ones. */
const KNOWN: Coefficients = {
  source: 'a test',
  points: [
    { perSecond: 0, cores: { webhooks: 0.1, postgres: 0.1 } },
    { perSecond: 100, cores: { webhooks: 0.3, postgres: 0.5 } },
    { perSecond: 1_000, cores: { webhooks: 0.9, postgres: 0.8 } },
  ],
  returns: { perSecond: 50, cores: { webhooks: 0.2, postgres: 1.3, gateway: 0.5 } },
  stored: { delivery: 4_000, event: 2_000, record: 1_000, return: 10_000 },
};
/** 10 deliveries per second on average, 40 in the busiest minutes. */
const DEMAND: Demand = {
  returnsADay: 432_000,
  deliveriesPerReturn: 2,
  endpoints: 100,
  latencyMs: 200,
  peak: 4,
};

describe('the capacity model', () => {
  test('interpolates cores between two measured rates', () => {
    const cores = coresFor(550, 0, KNOWN);
    expect(cores.get('webhooks')).toBeCloseTo(0.6);
    expect(cores.get('postgres')).toBeCloseTo(0.65);
    expect(cores.get('total')).toBeCloseTo(1.25);
  });

  test('uses the idle stack without deliveries, and extrapolates above the highest rate', () => {
    expect(coresFor(0, 0, KNOWN).get('total')).toBeCloseTo(0.2);
    expect(coresFor(3_000, 0, KNOWN).get('webhooks')).toBeCloseTo(2.7);
  });

  test('adds the cost of processing a return, without the cost of its delivery and of the idle stack', () => {
    // At 50 deliveries a second: webhooks 0.2, postgres 0.3; so a return takes 1/50 of postgres, 0.5/50 of gateway.
    const cores = coresFor(100, 10, KNOWN);
    expect(cores.get('webhooks')).toBeCloseTo(0.3);
    expect(cores.get('postgres')).toBeCloseTo(0.5 + 0.2);
    expect(cores.get('gateway')).toBeCloseTo(0.1);
    expect(cores.get('total')).toBeCloseTo(1.1);
  });

  test('computes rates, requests in flight, processes and connections', () => {
    const plan = planFor(DEMAND, KNOWN);
    expect(plan.mean).toBeCloseTo(10);
    expect(plan.busiest).toBeCloseTo(40);
    expect(plan.inFlight).toBeCloseTo(8);
    expect(plan.endpointUse).toBeCloseTo(0.01);
    expect(plan.processes).toEqual({ gateway: 2, returns: 2, webhooks: 2 });
    expect(plan.databaseConnections).toBe(2 * (10 + 19 + 23));
  });

  test('adds processes of webhooks for slow receivers, and reports when endpoints reach their limit', () => {
    const plan = planFor({ ...DEMAND, latencyMs: 50_000 }, KNOWN);
    expect(plan.inFlight).toBeCloseTo(2_000);
    expect(plan.processes.webhooks).toBe(4);
    expect(plan.endpointUse).toBeCloseTo(2.5);
  });

  test('adds processes when one core is not enough', () => {
    const busy = planFor({ ...DEMAND, returnsADay: 432_000 * 75 }, KNOWN);
    // 3,000 deliveries a second: 2.7 cores of webhooks at 0.7 a process; 1,500 returns a second: 15 of gateway.
    expect(busy.processes).toMatchObject({ webhooks: 4, gateway: 22 });
  });

  test('computes the disk from the retention', () => {
    const plan = planFor(DEMAND, KNOWN);
    expect(plan.diskGb).toBeCloseTo((864_000 * (4_000 * 30 + 3_000 * 7)) / 1e9);
    expect(plan.growthGb).toBeCloseTo((432_000 * 30 * 10_000) / 1e9);
  });

  test('computes the price of a million deliveries from core-hours and disk', () => {
    const plan = planFor(DEMAND, KNOWN);
    const cores = coresFor(10, 5, KNOWN).get('total') ?? Number.NaN;
    expect(plan.coreHoursPerMillion).toBeCloseTo((cores / 10 / 3_600) * 1e6);
    expect(plan.gbPerMillion).toBeCloseTo(plan.diskGb / 25.92);
    const price = pricePerMillion(
      { coreHoursPerMillion: 10, gbPerMillion: 2 },
      { coreHour: 0.04, gbMonth: 0.1 },
    );
    expect(price).toBeCloseTo(0.6);
  });

  test('rejects a demand of 0', () => {
    expect(() => planFor({ ...DEMAND, endpoints: 0 }, KNOWN)).toThrow('endpoints must be above 0');
  });
});
