import { randomInt } from 'node:crypto';
import { create, fromBinary, type MessageInitShape } from '@bufbuild/protobuf';
import type pg from 'pg';
import pino from 'pino';
import { Actor_Kind, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  DestinationSchema,
  GetDestinationResponseSchema,
} from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { type Event, EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { Outcome, type Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ProcessReturnRequestSchema,
  type Settings,
  type SettingsSchema,
  UpdateSettingsRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createEmbeddedCommerce } from '../../../services/commerce/embedded.ts';
import { createOrderFinder } from '../../../services/commerce/find-order.ts';
import type { CommerceProvider, EffectKind } from '../../../services/commerce/provider.ts';
import type { Providers } from '../../../services/commerce/providers.ts';
import { createRequestWatch, seeOpenRequests } from '../../../services/commerce/request-watch.ts';
import { param, raw, sql, unnamed } from '../../../services/platform/postgres/sql.ts';
import type { Destinations } from '../../../services/returns/destinations.ts';
import {
  claimJobs,
  IS_LEASED,
  type Job,
  OPEN_JOB,
  queued,
} from '../../../services/returns/processing/jobs.ts';
import { processReturn } from '../../../services/returns/processing/process.ts';
import { type RunDeps, runJob } from '../../../services/returns/processing/run.ts';
import type { JobPlaces } from '../../../services/returns/processing/worker.ts';
import { updateSettings } from '../../../services/returns/settings.ts';
import { loadReturn } from '../../../services/returns/store/load.ts';
import { submitReturn } from '../../../services/returns/submit/submit.ts';
import { plainLine, returnRequest, type SubmissionPart, submission } from '../builders.ts';
import { advanceClock } from '../clock.ts';
import { changeDeps } from './return-stores.ts';

// Shared by the tests of processing. Returns are made with the production code, and jobs run to their end.

export const actor = create(ActorSchema, { kind: Actor_Kind.USER, id: 'u1', name: 'Ann' });
export const silent = pino({ level: 'silent' });
const never = new AbortController().signal;

/** Every destination exists and has this location at the commerce provider. */
export const LOCATION = 70_001n;
export const destinations: Destinations = {
  getDestination: async ({ destinationId }) =>
    create(GetDestinationResponseSchema, {
      destination: create(DestinationSchema, {
        id: destinationId ?? 0n,
        name: 'North',
        enabled: true,
        providerLocationId: LOCATION,
      }),
    }),
};

/** A new shop with pounds and these settings. */
export async function newShop(
  pool: pg.Pool,
  settings: MessageInitShape<typeof SettingsSchema> = {},
): Promise<bigint> {
  const shopId = BigInt(randomInt(1, 2 ** 40));
  await changeSettings(pool, shopId, { currency: 'GBP', ...settings });
  return shopId;
}

export async function changeSettings(
  pool: pg.Pool,
  shopId: bigint,
  settings: MessageInitShape<typeof SettingsSchema>,
): Promise<Settings> {
  const request = create(UpdateSettingsRequestSchema, { shopId, actor, settings });
  return (await updateSettings(pool, request)).settings;
}

/** A return of one line item of 20.00 that is refunded, unless `more` overrides it. */
export async function newReturn(
  pool: pg.Pool,
  shopId: bigint,
  more: SubmissionPart = {},
): Promise<Return> {
  const request = returnRequest(shopId, { actor, lines: [newLine()], ...more });
  const submitted = await submitReturn(submitDeps(pool), submission(request));
  return submitted.return;
}

/** What submissions need. @param commerce the provider of all shops; by default the embedded one. */
export function submitDeps(
  pool: pg.Pool,
  commerce: CommerceProvider = createEmbeddedCommerce(pool),
) {
  const providers = onlyProvider(commerce);
  const orders = createOrderFinder({ pool, providers });
  return { ...changeDeps(pool), destinations, providers, orders };
}

export function newLine() {
  return { ...plainLine(), variantId: 5n };
}

/** A return worth 20.00. An exchange uses 12.00, and the other 8.00 become a gift card or a refund. */
export function exchangeWith(rest: 'gift card' | 'refund') {
  const price = { shop: '12.00' };
  const credit = rest === 'refund' ? '12.00' : '20.00';
  return {
    outcome: rest === 'refund' ? Outcome.EXCHANGE_REFUND : Outcome.EXCHANGE_CREDIT,
    exchanges: [{ variantId: 9n, title: 'Hat', price }],
    amounts: { returnCredit: { shop: credit } },
  };
}

/** A return worth 20.00 that is exchanged for a coat of 25.00. */
export function upsell(more: SubmissionPart = {}): SubmissionPart {
  return {
    outcome: Outcome.UPSELL,
    exchanges: [{ variantId: 9n, title: 'Coat', price: { shop: '25.00' } }],
    amounts: { returnCredit: { shop: '20.00' } },
    ...more,
  };
}

export async function requestProcessing(
  pool: pg.Pool,
  of: Pick<Return, 'shopId' | 'id'>,
  more: MessageInitShape<typeof ProcessReturnRequestSchema> = {},
  places?: JobPlaces,
) {
  const { shopId, id: returnId } = of;
  const { result } = await processReturn(
    pool,
    create(ProcessReturnRequestSchema, { shopId, returnId, actor, ...more }),
    onlyProvider(createEmbeddedCommerce(pool)),
    places,
  );
  return result;
}

/** Requests processing where a place is free. Returns the job, which nobody runs. */
export async function leaseOne(pool: pg.Pool, of: Pick<Return, 'shopId' | 'id'>): Promise<Job> {
  let leased: Job | undefined;
  const places: JobPlaces = {
    async queueing(queue) {
      const result = await queue(true);
      if (result.queued !== 'waiting') leased = result.queued;
      return result;
    },
  };
  await requestProcessing(pool, of, {}, places);
  if (!leased) throw new Error('the job got no lease');
  return leased;
}

/** Dependencies of jobs. Retries are due immediately. */
export function runDeps(pool: pg.Pool, commerce: CommerceProvider): RunDeps {
  return {
    ...changeDeps(pool),
    destinations,
    retryBackoff: () => 0,
    providers: onlyProvider(commerce),
    watch,
  };
}

/** The requests that this process has seen. */
export const watch = createRequestWatch();

/** Sees all open requests, and lets two minutes pass by the monotonic clock. */
export async function passTwoMinutes(pool: pg.Pool): Promise<void> {
  await seeOpenRequests(pool, watch);
  advanceClock(121_000);
}

/** Every shop has this provider. */
export function onlyProvider(commerce: CommerceProvider): Providers {
  const of = async () => commerce;
  return { of, forLookUps: of, connected: async () => ({ commerce, since: new Date(0) }) };
}

/** The provider, with another way to create effects of one kind. */
export function creating<P extends CommerceProvider>(
  provider: P,
  kind: EffectKind,
  create: CommerceProvider['create'],
): P {
  return {
    ...provider,
    create: (request, signal) =>
      request.kind === kind ? create(request, signal) : provider.create(request, signal),
  };
}

/** Runs one job after the other until none is due. */
export async function runDue(deps: RunDeps): Promise<void> {
  for (;;) {
    const [job] = await claimJobs(deps.pool, 1);
    if (!job) return;
    await runJob(deps, job, never);
  }
}

export async function claimOne(pool: pg.Pool): Promise<Job> {
  const [job] = await claimJobs(pool, 1);
  if (!job) throw new Error('no job is due');
  return job;
}

/** Makes all open jobs due, and takes over the running ones, as if their workers had been killed. */
export async function endLeases(pool: pg.Pool): Promise<void> {
  await pool.query(
    unnamed(sql`update processing_jobs set ${queued(param(0))},
      takeovers = takeovers + (${raw(IS_LEASED)})::integer where ${raw(OPEN_JOB)}`),
  );
}

export async function reload(pool: pg.Pool, of: Pick<Return, 'shopId' | 'id'>): Promise<Return> {
  const found = await loadReturn(pool, of.shopId, of.id);
  if (!found) throw new Error('the return does not exist');
  return found;
}

/** The key of an effect of a return: the return's id, its random value, and the kind. */
export async function effectKey(
  pool: pg.Pool,
  { shopId, id }: Pick<Return, 'shopId' | 'id'>,
  kind: string,
): Promise<string> {
  const { rows } = await pool.query<{ nonce: string }>(
    'select effect_nonce as nonce from returns where shop_id = $1 and id = $2',
    [shopId, id],
  );
  return `rms:return:${id}:${rows[0]?.nonce.replaceAll('-', '')}:${kind}`;
}

/** The events about a return after its creation, oldest first. */
export async function eventsOf(pool: pg.Pool, of: Pick<Return, 'shopId' | 'id'>): Promise<Event[]> {
  const { rows } = await pool.query<{ value: Uint8Array }>(
    'select value from events where shop_id = $1 and key = $2 order by position',
    [of.shopId, `${of.shopId}:${of.id}`],
  );
  return rows
    .map((row) => fromBinary(EventSchema, row.value))
    .filter((event) => event.trigger !== 'return.created');
}

export async function triggersOf(
  pool: pg.Pool,
  of: Pick<Return, 'shopId' | 'id'>,
): Promise<string[]> {
  return (await eventsOf(pool, of)).map((event) => event.trigger);
}

/** The kinds of a return's timeline entries, oldest first. */
export async function timelineOf(
  pool: pg.Pool,
  of: Pick<Return, 'shopId' | 'id'>,
): Promise<{ kind: string; text: string; facts: Record<string, string> }[]> {
  const { rows } = await pool.query<{ kind: string; text: string; facts: Record<string, string> }>(
    'select kind, text, facts from timeline where shop_id = $1 and return_id = $2 order by id',
    [of.shopId, of.id],
  );
  return rows;
}
