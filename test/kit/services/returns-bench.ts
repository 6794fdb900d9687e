import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import pino from 'pino';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { DestinationsService } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ReturnsService,
  type SettingsSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { EventBus } from '../../../services/platform/bus/event-bus.ts';
import { signingBus } from '../../../services/platform/bus/signed-bus.ts';
import { DomainError } from '../../../services/platform/errors.ts';
import { startServiceServer } from '../../../services/platform/service-server.ts';
import { startTelemetry } from '../../../services/platform/telemetry.ts';
import { returnsShape } from '../../../services/returns/config.ts';
import { type ReturnsOptions, startReturns } from '../../../services/returns/start.ts';
import { returnRequest, type SubmissionPart } from '../builders.ts';
import { testSettings } from '../settings.ts';
import {
  actor,
  eventSignatures,
  identity,
  newShop,
  refusal,
  runService,
} from './running-service.ts';

/** Destinations that every shop of the bench has. */
export const WAREHOUSE = 11n;
export const CLOSED_WAREHOUSE = 12n;

export const invalid = (field: string) => ({
  code: Code.InvalidArgument,
  reason: 'INVALID_FIELD',
  field,
});
export const stateForbids = {
  code: Code.FailedPrecondition,
  reason: 'STATE_FORBIDS',
  field: undefined,
};
export const notFound = (what: string) => ({
  code: Code.NotFound,
  reason: `${what}_NOT_FOUND`,
  field: undefined,
});

/** The returns service beside a small destinations service. */
export async function startReturnsBench(
  o: Partial<Pick<ReturnsOptions, 'NODE_ENV' | 'FRAUD_TARGET'>> = {},
) {
  const destinations = await startFakeDestinations();
  let bus: EventBus | undefined;
  let metricsUrl = '';
  const running = await runService({
    schema: 'returns',
    service: ReturnsService,
    async start({ bus: plain, DATABASE_URL }) {
      bus = plain && signingBus(plain, eventSignatures);
      const settings = testSettings(returnsShape, {
        DATABASE_URL,
        DESTINATIONS_TARGET: `127.0.0.1:${destinations.port}`,
        FRAUD_TARGET: '127.0.0.1:1',
      });
      const service = await startReturns({ ...settings, ...(plain && { bus: plain }), ...o });
      metricsUrl = service.metricsUrl;
      return service;
    },
  });
  const { client, db, events } = running;

  /** A new shop in pounds. */
  async function shop(settings: MessageInitShape<typeof SettingsSchema> = {}): Promise<bigint> {
    const shopId = newShop();
    await client.updateSettings({ shopId, actor, settings: { currency: 'GBP', ...settings } });
    return shopId;
  }

  async function submit(shopId: bigint, more: SubmissionPart = {}): Promise<Return> {
    const answer = await client.submitReturn(returnRequest(shopId, more));
    return there(answer.return);
  }

  return {
    client,
    target: running.target,
    db,
    bus: there(bus),
    metricsUrl,
    events,
    shop,
    request: returnRequest,
    submit,

    /** The error of a rejected submission. */
    refused: (shopId: bigint, more: SubmissionPart) =>
      refusal(client.submitReturn(returnRequest(shopId, more))),

    async read(of: Pick<Return, 'shopId' | 'id'>): Promise<Return> {
      const { returns } = await client.getReturns({
        shopId: of.shopId,
        actor,
        returnIds: [of.id],
      });
      return there(returns[0]);
    },

    /** The triggers of a return since its creation, oldest first. */
    async triggers(of: Pick<Return, 'shopId' | 'id'>): Promise<string[]> {
      const all = await events(of.shopId);
      return all
        .filter((event) => event.returnId === of.id && event.trigger !== 'return.created')
        .map((event) => event.trigger);
    },

    /** A return's timeline, oldest first. */
    async timeline(of: Pick<Return, 'shopId' | 'id'>) {
      const { entries } = await client.getTimeline({ shopId: of.shopId, actor, returnId: of.id });
      return entries.reverse();
    },

    /** Puts a return at its end, as processing and expiry would. */
    async end(of: Return, state: 'closed' | 'expired' | 'cancelled'): Promise<void> {
      await db.pool.query(
        `update returns set state = $3, archived_at = case when $3 = 'closed' then now() end
          where shop_id = $1 and id = $2`,
        [of.shopId, of.id, state],
      );
    },

    async queue(of: Return): Promise<void> {
      await db.pool.query('update returns set processing = true where shop_id = $1 and id = $2', [
        of.shopId,
        of.id,
      ]);
    },

    async stop() {
      await running.stop();
      await destinations.stop();
    },
  };
}
export type ReturnsBench = Awaited<ReturnType<typeof startReturnsBench>>;

/** What must be there. */
export function there<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('something is missing in an answer');
  return value;
}

/** The first of the lines, which every return has. */
export function firstLine(of: Return): bigint {
  return there(of.lineItems[0]).lineItemId;
}

async function startFakeDestinations() {
  const telemetry = await startTelemetry({ service: 'destinations', metricsPort: 0 });
  const server = await startServiceServer({
    port: 0,
    identity,
    logger: pino({ level: 'silent' }),
    telemetry,
    reflection: false,
    maxCallsInFlight: 100,
    isOpen: () => true,
    isReady: async () => true,
    routes: (router) =>
      void router.service(DestinationsService, {
        async getDestination({ destinationId }) {
          if (destinationId !== WAREHOUSE && destinationId !== CLOSED_WAREHOUSE) {
            const reason = ErrorReason.DESTINATION_NOT_FOUND;
            throw new DomainError(Code.NotFound, reason, 'no such destination');
          }
          const address = { name: 'North', city: 'Leeds', countryCode: 'GB' };
          const enabled = destinationId === WAREHOUSE;
          return { destination: { id: destinationId, name: 'North', enabled, address } };
        },
      }),
  });
  return {
    port: server.port,
    async stop() {
      await server.stop();
      await telemetry.stop();
    },
  };
}
