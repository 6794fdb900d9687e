import { create } from '@bufbuild/protobuf';
import { Code, type ConnectRouter, type ServiceImpl } from '@connectrpc/connect';
import type { ServiceTargets } from '../../../gateway/services.ts';
import { CartSchema, CartsService } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  DestinationsService,
  DestinationType,
} from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { DispositionsService } from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { FraudService } from '../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { DispositionOutcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ProcessReturnResponseSchema,
  ProcessReturnResponse_Refused_Code as RefusedCode,
  ReturnsService,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { DeliveryState, WebhooksService } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { DomainError, invalidField } from '../../../services/platform/errors.ts';
import { errorInterceptor } from '../../../services/platform/grpc/errors.ts';
import { startGrpcServer } from '../../../services/platform/grpc/server.ts';
import { createLogger } from '../../../services/platform/log.ts';
import {
  FAKE,
  NOW,
  sampleDelivery,
  sampleDestinations,
  sampleReport,
  sampleReturn,
  sampleSubscription,
} from './fake-objects.ts';
import { fakeReturnTools } from './fake-return-tools.ts';

/** The RPCs whose behaviour a test may replace. */
export interface FakeServices {
  readonly returns: Partial<ServiceImpl<typeof ReturnsService>>;
  readonly dispositions: Partial<ServiceImpl<typeof DispositionsService>>;
  readonly destinations: Partial<ServiceImpl<typeof DestinationsService>>;
  readonly fraud: Partial<ServiceImpl<typeof FraudService>>;
  readonly carts: Partial<ServiceImpl<typeof CartsService>>;
  readonly webhooks: Partial<ServiceImpl<typeof WebhooksService>>;
}

/** The six services on one port: real gRPC servers that answer for the ids in {@link FAKE}. */
export async function startFakeBackend(): Promise<{
  readonly services: FakeServices;
  readonly targets: ServiceTargets;
  /** Resets every RPC to its original behaviour. */
  reset(): void;
  stop(): Promise<void>;
}> {
  const services: FakeServices = fakes();
  const server = await startGrpcServer({
    port: 0,
    routes: (router) => {
      mount(router, services);
    },
    interceptors: [errorInterceptor(createLogger({ service: 'fake', level: 'silent' }))],
  });
  const target = `127.0.0.1:${server.port}`;
  return {
    services,
    targets: {
      returns: target,
      dispositions: target,
      destinations: target,
      fraud: target,
      carts: target,
      webhooks: target,
    },
    reset: () => {
      for (const [name, fake] of Object.entries(fakes())) {
        Object.assign(Reflect.get(services, name), fake);
      }
    },
    stop: () => server.stop(),
  };
}

/** Handlers read their behaviour at each call, so that a test can change it while the server runs. */
function mount(router: ConnectRouter, services: FakeServices): void {
  router.service(ReturnsService, late(services.returns));
  router.service(DispositionsService, late(services.dispositions));
  router.service(DestinationsService, late(services.destinations));
  router.service(FraudService, late(services.fraud));
  router.service(CartsService, late(services.carts));
  router.service(WebhooksService, late(services.webhooks));
}

function late<T extends object>(fake: T): T {
  return new Proxy(fake, {
    get: (target, name) => (request: unknown, context: unknown) => {
      const behaviour: unknown = Reflect.get(target, name);
      if (typeof behaviour !== 'function') throw new Error(`no fake of ${String(name)}`);
      return behaviour(request, context);
    },
  });
}

function missing(reason: ErrorReason, text: string): DomainError {
  return new DomainError(Code.NotFound, reason, text);
}

function fakes(): FakeServices {
  return {
    returns: {
      findReturn: ({ shopId, selector }) => {
        const known =
          selector.case === 'orderName'
            ? selector.value === '#1001'
            : selector.value === FAKE.returns.open;
        if (shopId !== FAKE.shopId || !known)
          throw missing(ErrorReason.RETURN_NOT_FOUND, 'no return');
        return { return: sampleReturn() };
      },
      processReturn: ({ returnId }) => {
        const { open, flagged, closed } = FAKE.returns;
        if (returnId === open) {
          return create(ProcessReturnResponseSchema, { result: { case: 'queued', value: {} } });
        }
        const code =
          returnId === flagged
            ? RefusedCode.UNPROCESSABLE_FLAGGED_RETURN
            : RefusedCode.UNPROCESSABLE_RETURN;
        if (returnId !== flagged && returnId !== closed)
          throw missing(ErrorReason.RETURN_NOT_FOUND, 'no return');
        const value = { code, message: 'It cannot be processed.' };
        return create(ProcessReturnResponseSchema, { result: { case: 'refused', value } });
      },
      updateSettings: ({ settings }) => (settings ? { settings } : {}),
      ...fakeReturnTools(),
    },
    dispositions: {
      getDispositions: () => ({ items: [] }),
      getSettings: () => ({ settings: { defaultOutcome: DispositionOutcome.BACK_TO_STOCK } }),
      assess: ({ items, withoutNotes }) => ({
        items: items.map((item, index) => {
          if (item.lineItemId !== FAKE.lineItem && item.lineItemId < FAKE.manyLinesFrom) {
            throw new DomainError(
              Code.InvalidArgument,
              ErrorReason.LINE_ITEM_NOT_FOUND,
              `items[${index}].line_item_id must be the id of an existing line item`,
              { field: `items[${index}].line_item_id` },
            );
          }
          if (item.note === FAKE.noteWithoutRoom) {
            throw new DomainError(
              Code.InvalidArgument,
              ErrorReason.RETURN_TOO_LARGE,
              'the details of return 11 would be larger than 24 MiB (25165824 bytes)',
            );
          }
          const outcome = item.outcome || DispositionOutcome.BACK_TO_STOCK;
          const { returnProcessor, note } = item;
          return {
            lineItemId: item.lineItemId,
            disposition: {
              outcome,
              inspectedAt: item.inspectedAt ?? NOW,
              ...(returnProcessor !== undefined && { returnProcessor }),
              ...(note !== undefined && !withoutNotes && { note }),
            },
          };
        }),
      }),
    },
    destinations: {
      listDestinations: () => ({ destinations: sampleDestinations() }),
      updateDestination: ({ destinationId, name, type, enabled, address }) => {
        if (destinationId !== FAKE.destination) {
          throw missing(ErrorReason.DESTINATION_NOT_FOUND, 'no destination');
        }
        return {
          destination: {
            id: destinationId,
            name,
            type: type || DestinationType.WAREHOUSE,
            enabled: enabled ?? true,
            ...(address && { address }),
          },
        };
      },
    },
    fraud: {
      getReport: ({ returnId }) => {
        if (returnId === FAKE.returns.reported) return { report: sampleReport() };
        throw missing(ErrorReason.FRAUD_REPORT_NOT_FOUND, 'no report');
      },
      listCategories: () => ({
        categories: [{ id: 'other', title: 'Other', commentRequired: true }],
      }),
      createReport: ({ returnId, category, comment }) => {
        if (returnId === FAKE.returns.reported) {
          throw new DomainError(Code.AlreadyExists, ErrorReason.FRAUD_REPORT_EXISTS, 'reported');
        }
        if (returnId !== FAKE.returns.open)
          throw missing(ErrorReason.RETURN_NOT_FOUND, 'no return');
        return {
          report: {
            id: 1n,
            returnId,
            createdAt: NOW,
            ...(category !== undefined && { category }),
            ...(comment !== undefined && { comment }),
          },
        };
      },
    },
    carts: {
      createCart: ({ entries, shopify, shopifyNull }) => ({
        cart: create(CartSchema, {
          token: 't'.repeat(43),
          entries,
          shopifyNull,
          ...(shopify !== undefined && { shopify }),
        }),
      }),
    },
    webhooks: {
      listSubscriptions: () => ({ subscriptions: [sampleSubscription()] }),
      createSubscription: ({ url, topic, trigger }) => {
        refuseUrl(url);
        return {
          subscription: { ...sampleSubscription(), topic, trigger, url },
          secret: `whsec_${'A'.repeat(43)}=`,
        };
      },
      updateSubscription: ({ url, subscriptionId }) => {
        if (url !== '') refuseUrl(url);
        if (subscriptionId !== FAKE.webhook) {
          throw missing(ErrorReason.SUBSCRIPTION_NOT_FOUND, 'no subscription');
        }
        return { subscription: sampleSubscription() };
      },
      deleteSubscription: ({ subscriptionId }) => {
        if (subscriptionId === FAKE.webhook) return {};
        throw missing(ErrorReason.SUBSCRIPTION_NOT_FOUND, 'no subscription');
      },
      listDeliveries: ({ subscriptionId, pageSize, cursor }) => {
        if (cursor !== '' && cursor !== 'next') {
          throw invalidField('cursor', 'must be the cursor of a previous page');
        }
        if (subscriptionId !== FAKE.webhook && subscriptionId !== 0n) {
          throw missing(ErrorReason.SUBSCRIPTION_NOT_FOUND, 'no subscription');
        }
        return { deliveries: [sampleDelivery()], nextCursor: pageSize === 1 ? 'next' : '' };
      },
      replayDelivery: ({ subscriptionId, deliveryId }) => {
        const isOther = subscriptionId !== FAKE.webhook && subscriptionId !== 0n;
        if (isOther || deliveryId !== FAKE.delivery) {
          throw missing(ErrorReason.DELIVERY_NOT_FOUND, 'no delivery');
        }
        return { delivery: { ...sampleDelivery(), state: DeliveryState.WAITING } };
      },
      getDelivery: ({ deliveryId }) => {
        if (deliveryId === FAKE.delivery) return { delivery: sampleDelivery() };
        throw missing(ErrorReason.DELIVERY_NOT_FOUND, 'no delivery');
      },
      getPayloadVersion: () => ({ version: '2026-07' }),
      setPayloadVersion: ({ version }) => ({ version }),
    },
  };
}

function refuseUrl(url: string): void {
  if (url.startsWith('https://')) return;
  throw new DomainError(
    Code.InvalidArgument,
    ErrorReason.WEBHOOK_URL_REFUSED,
    'The url must be an absolute https address',
    { field: 'url' },
  );
}
