import { create } from '@bufbuild/protobuf';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import type { LineItem } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ApplyAssessmentsRequestSchema,
  ApplyAssessmentsResponseSchema,
  CheckLineItemsResponseSchema,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createEmbeddedCommerce } from '../../services/commerce/embedded.ts';
import { sampleEvent } from '../../services/contract/sample-event.ts';
import type { HandOverDeps } from '../../services/dispositions/hand-over.ts';
import { inspect } from '../../services/dispositions/inspect.ts';
import type { Telemetry } from '../../services/platform/telemetry/telemetry.ts';
import { applyAssessments } from '../../services/returns/inspections/inspections.ts';
import { runJob } from '../../services/returns/processing/run.ts';
import { ownersOf } from '../../services/returns/store/line-owners.ts';
import { submitReturn } from '../../services/returns/submit/submit.ts';
import { createRetryClock } from '../../services/webhooks/delivery/attempt/retry-schedule.ts';
import type { FreshDeliveries } from '../../services/webhooks/delivery/queue/targets.ts';
import { returnRequest, submission } from '../kit/builders.ts';
import { advanceClock, restoreClock, stopClock } from '../kit/clock.ts';
import { createSink } from '../kit/delivery-kills/sink.ts';
import { fanOutOn, sender } from '../kit/delivery-kills/webhooks-process.ts';
import { drain, publisherOn, rememberingBus } from '../kit/events/outbox.ts';
import { startMeasuredPostgres } from '../kit/postgres/measured-postgres.ts';
import { FINDING } from '../kit/services/dispositions-bench.ts';
import * as processing from '../kit/services/processing.ts';
import { inspectionsOf } from '../kit/services/return-stores.ts';
import { actor, newShop } from '../kit/services/running-service.ts';
import { testTelemetry } from '../kit/services/telemetry.ts';
import { simulateProcess } from '../kit/simulated-process.ts';
import { until } from '../kit/until.ts';
import { newSubscription } from '../kit/webhooks/subscription.ts';

/**
 * What each part of a return's life costs. The numbers depend neither on the machine nor on its load. A change that costs
 * more, or less, states it here. A lower number must come from merged work, not from missing work: the tests of the
 * services check what each operation promises.
 *
 * `messages`: calls of other services, records to the bus, requests to webhooks.
 */
const COSTS = {
  submit: { statements: 16, roundTrips: 10, commits: 1, rows: 6, walBytes: 3_872, messages: 0 },
  assess: { statements: 10, roundTrips: 6, commits: 3, rows: 10, walBytes: 4_160, messages: 2 },
  reassess: { statements: 10, roundTrips: 6, commits: 3, rows: 9, walBytes: 3_904, messages: 2 },
  process: { statements: 21, roundTrips: 11, commits: 5, rows: 18, walBytes: 6_688, messages: 0 },
  publish: { statements: 2, roundTrips: 2, commits: 2, rows: 1, walBytes: 160, messages: 1 },
  deliver: { statements: 7, roundTrips: 4, commits: 3, rows: 10, walBytes: 4_624, messages: 1 },
};

/** Texts of ids and times have different lengths. One more index is a larger difference. */
const WAL_TOLERANCE = 0.01;

/** Longer than a queue without deliveries stays loaded. Milliseconds. */
const IDLE_MS = 2_600;

let postgres: Awaited<ReturnType<typeof startMeasuredPostgres>>;
let telemetry: Telemetry;
let returns: pg.Pool;
let dispositions: pg.Pool;
let webhooks: pg.Pool;
beforeAll(async () => {
  [postgres, telemetry] = await Promise.all([startMeasuredPostgres(), testTelemetry()]);
  returns = postgres.poolOf('returns');
  dispositions = postgres.poolOf('dispositions');
  webhooks = postgres.poolOf('webhooks');
});
afterEach(restoreClock);
afterAll(() => Promise.all([postgres.stop(), telemetry.stop()]));

let messages = 0;

/** Another process. Each use of a method is a message. */
function counted<T extends object>(other: T): T {
  return new Proxy(other, {
    get(target, name) {
      messages += 1;
      return Reflect.get(target, name);
    },
  });
}

const destinations = counted(processing.destinations);

async function newReturn() {
  return processing.newReturn(returns, await processing.newShop(returns));
}

/** The returns service as dispositions calls it, without the network in between. */
const returnsService: HandOverDeps['returns'] = counted({
  checkLineItems: async ({ shopId = 0n, lineItemIds = [] }) => {
    const owners = await ownersOf(returns, shopId, lineItemIds);
    return create(CheckLineItemsResponseSchema, {
      owners: [...owners].map(([lineItemId, owner]) => ({ lineItemId, ...owner })),
    });
  },
  applyAssessments: async (request) => {
    await applyAssessments(inspectionsOf(returns), create(ApplyAssessmentsRequestSchema, request));
    return create(ApplyAssessmentsResponseSchema);
  },
  applyGradings: () => Promise.reject(new Error('nothing is graded')),
});

async function assess(shopId: bigint, lines: readonly LineItem[], note: string) {
  const findings = lines.map(({ lineItemId }) => ({ ...FINDING, lineItemId, note }));
  const deps = { pool: dispositions, returns: returnsService };
  const { created } = await inspect(deps, { shopId, actor, kind: 'assessment', findings });
  expect(created).toHaveLength(lines.length);
}

type Work = () => Promise<unknown>;

/** Each prepares its data, and returns the measured work and a check of its result. */
const PARTS: Record<keyof typeof COSTS, () => Promise<[Work, Work?]>> = {
  async submit() {
    const shopId = await processing.newShop(returns);
    const request = submission(returnRequest(shopId, { lines: [processing.newLine()] }));
    return [() => submitReturn({ ...processing.submitDeps(returns), destinations }, request)];
  },
  async assess() {
    const { shopId, lineItems } = await newReturn();
    return [() => assess(shopId, lineItems, 'first')];
  },
  async reassess() {
    const { shopId, lineItems } = await newReturn();
    await assess(shopId, lineItems, 'first');
    return [() => assess(shopId, lineItems, 'again')];
  },
  async process() {
    const of = await newReturn();
    const deps = processing.runDeps(returns, createEmbeddedCommerce(returns));
    const work = async () => {
      const job = await processing.leaseOne(returns, of);
      await runJob({ ...deps, destinations }, job, AbortSignal.any([]));
    };
    const triggers = async () => processing.triggersOf(returns, of);
    return [work, async () => expect(await triggers()).toEqual(['return.closed'])];
  },
  async publish() {
    const publisher = publisherOn(returns, counted(rememberingBus().bus));
    await drain(publisher);
    await newReturn();
    return [() => drain(publisher)];
  },
  /** To a webhook without other deliveries, until its queue is unloaded. */
  async deliver() {
    stopClock();
    const trial = { pool: webhooks, telemetry, clock: createRetryClock() };
    const fresh: FreshDeliveries[] = [];
    const fanOut = await fanOutOn(webhooks, trial, fresh);
    const sink = counted(createSink(''));
    const parts = sender(simulateProcess(undefined), webhooks, { ...trial, sink });
    await webhooks.query('delete from leases');
    await parts.shards.rebalance();
    await parts.loader.load();
    const shopId = newShop();
    await newSubscription(webhooks, shopId);
    const work = async () => {
      await fanOut([sampleEvent('return.closed', shopId)]);
      parts.loader.addFresh(fresh);
      await parts.loader.load();
      await parts.scheduler.sendDue();
      await until(() => parts.inFlight.size() === 0);
      advanceClock(IDLE_MS);
      await parts.loader.unload();
    };
    const ended = 'select ended from deliveries where shop_id = $1';
    const rows = async () => (await webhooks.query(ended, [shopId])).rows;
    return [work, async () => expect(await rows()).toEqual([{ ended: 'delivered' }])];
  },
};

describe('a return costs', () => {
  test.each(Object.keys(COSTS) as (keyof typeof COSTS)[])('for the part %s', async (name) => {
    // The first work also creates pages of indexes.
    const [first] = await PARTS[name]();
    await first();
    const [work, check] = await PARTS[name]();
    messages = 0;
    const { walBytes, ...cost } = await postgres.costOf(work);
    const stated = COSTS[name];
    const isNear = Math.abs(walBytes - stated.walBytes) <= stated.walBytes * WAL_TOLERANCE;
    const all = { ...cost, walBytes: isNear ? stated.walBytes : walBytes, messages };
    expect(all).toEqual(stated);
    await check?.();
  });
});

test('assessments of thirty returns need no more round trips than of two', async () => {
  const shopId = await processing.newShop(returns);
  const lines: LineItem[] = [];
  for (let n = 0; n < 32; n += 1) {
    lines.push(...(await processing.newReturn(returns, shopId)).lineItems.slice(0, 1));
  }
  const two = await postgres.costOf(() => assess(shopId, lines.slice(0, 2), 'two'));
  const thirty = await postgres.costOf(() => assess(shopId, lines.slice(2), 'thirty'));
  expect(lines).toHaveLength(32);
  expect(thirty.roundTrips).toBeLessThanOrEqual(two.roundTrips);
});
