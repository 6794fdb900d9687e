import type { DescMethod, DescService } from '@bufbuild/protobuf';
import { CartsService } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import { CommerceService } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { DestinationsService } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { DispositionsService } from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { EventsService } from '../../../proto/gen/rms/events/v1/events_service_pb.ts';
import { FraudService } from '../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { WebhooksService } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import type { ProcessName, ServiceName } from '../services.ts';

/** The gRPC service of each service of the same name. */
export const RPC_SERVICES = {
  destinations: DestinationsService,
  returns: ReturnsService,
  /** Served by the returns service. */
  commerce: CommerceService,
  dispositions: DispositionsService,
  fraud: FraudService,
  carts: CartsService,
  webhooks: WebhooksService,
} as const satisfies Readonly<Record<ServiceName | 'commerce', DescService>>;

/** Internal services that are not in this repository. The setting SERVICE_CALLERS lists their service accounts. */
export const INTERNAL_CALLERS = [
  // The pages of shoppers.
  'storefront',
  'labels',
  'warehouses',
  'payments',
  'importer',
  'back-office',
] as const;

/** The caller that sends the shared token without a name (development and tests). It may call every RPC. */
export const ANY_CALLER = '*';

type Caller = ProcessName | (typeof INTERNAL_CALLERS)[number];

function rpcs<S extends DescService>(service: S, ...names: (keyof S['method'])[]): DescMethod[] {
  return service.methods.filter(({ localName }) => names.includes(localName));
}

/**
 * The RPCs that each caller may call. Servers reject every other call. So nobody can call a new RPC until it is here.
 */
const TABLE: Readonly<Record<Caller, readonly DescMethod[]>> = {
  // The admin commands and the import of files also run in pods of the gateway.
  gateway: [
    ...rpcs(ReturnsService, 'submitReturn', 'flagReturn', 'unflagReturn', 'cancelReturn'),
    ...rpcs(ReturnsService, 'processReturn', 'addNote', 'getReturns', 'findReturn', 'findReturns'),
    ...rpcs(ReturnsService, 'recordLabel', 'updateLabel', 'recordGiftCard'),
    ...rpcs(ReturnsService, 'recordReceipt', 'listArrivals', 'listExpected'),
    ...rpcs(ReturnsService, 'searchReturns', 'getTimeline', 'summarize', 'checkLineItems'),
    ...rpcs(ReturnsService, 'getSettings', 'updateSettings', 'checkReturn'),
    ...rpcs(ReturnsService, 'findShopperPage', 'findShopperReturn'),
    ...rpcs(ReturnsService, 'declareWithdrawal', 'listWithdrawals', 'returnWithdrawal'),
    ...rpcs(ReturnsService, 'getPolicy', 'updatePolicy', 'previewPolicy', 'getEligibility'),
    ...CommerceService.methods,
    ...rpcs(DispositionsService, 'assess', 'gradeItems', 'getDispositions'),
    ...rpcs(DispositionsService, 'getSettings', 'updateSettings'),
    ...rpcs(DestinationsService, 'createDestination', 'updateDestination', 'getDestination'),
    ...rpcs(DestinationsService, 'listDestinations'),
    ...rpcs(FraudService, 'createReport', 'getReport', 'listCategories'),
    ...rpcs(CartsService, 'createCart', 'getCart'),
    ...WebhooksService.methods,
    // The sweep of webhooks calls these methods, to find events that Kafka lost.
    ...EventsService.methods,
  ],
  returns: [...rpcs(DestinationsService, 'getDestination'), ...EventsService.methods],
  dispositions: rpcs(ReturnsService, 'checkLineItems', 'applyAssessments', 'applyGradings'),
  destinations: [],
  fraud: rpcs(ReturnsService, 'findReturn'),
  carts: [],
  webhooks: [
    ...rpcs(ReturnsService, 'getSnapshot', 'readEvents', 'countEvents'),
    ...EventsService.methods,
  ],
  // Shoppers request returns on these pages, and finish their checkout.
  storefront: [
    ...rpcs(ReturnsService, 'submitReturn', 'editReturn', 'cancelReturn', 'addCustomerUpload'),
    ...rpcs(ReturnsService, 'requestLabel', 'cancelLabelRequest', 'getReturns', 'findReturn'),
    ...rpcs(ReturnsService, 'checkLineItems', 'getSettings', 'getPolicy', 'getEligibility'),
    ...rpcs(DestinationsService, 'getDestination', 'listDestinations'),
    ...rpcs(CartsService, 'getCart'),
  ],
  // The provider of shipping labels.
  labels: [
    ...rpcs(ReturnsService, 'recordLabel', 'updateLabel', 'cancelLabelRequest'),
    ...rpcs(ReturnsService, 'getReturns', 'findReturn'),
  ],
  // The network of warehouses that receives goods.
  warehouses: [
    ...rpcs(ReturnsService, 'recordArrival', 'recordPartnerShipment', 'processReturn'),
    ...rpcs(ReturnsService, 'recordReceipt', 'listArrivals', 'listExpected'),
    ...rpcs(ReturnsService, 'getReturns', 'findReturn', 'checkLineItems'),
    ...rpcs(DispositionsService, 'assess', 'gradeItems', 'getDispositions', 'getSettings'),
    ...rpcs(DestinationsService, 'getDestination', 'listDestinations', 'linkLocation'),
  ],
  // Pays refunds before the goods arrive.
  payments: [
    ...rpcs(ReturnsService, 'openInstantRefund', 'settleInstantRefund'),
    ...rpcs(ReturnsService, 'getReturns', 'findReturn'),
  ],
  importer: [
    ...rpcs(ReturnsService, 'submitReturn', 'recordLabel', 'updateLabel', 'recordArrival'),
    ...rpcs(ReturnsService, 'processReturn', 'addNote', 'getReturns', 'findReturn'),
    ...rpcs(ReturnsService, 'checkLineItems', 'getSettings'),
    ...rpcs(DestinationsService, 'createDestination', 'linkLocation', 'listDestinations'),
  ],
  // Set-up and support of shops.
  'back-office': [
    ...rpcs(ReturnsService, 'editReturn', 'flagReturn', 'unflagReturn', 'cancelReturn'),
    ...rpcs(ReturnsService, 'requestLabel', 'cancelLabelRequest', 'addNote', 'redactCustomer'),
    ...rpcs(ReturnsService, 'getReturns', 'findReturn', 'findReturns', 'searchReturns'),
    ...rpcs(ReturnsService, 'getTimeline', 'summarize', 'getSettings', 'updateSettings'),
    ...rpcs(ReturnsService, 'sweepExpired', 'getPolicy', 'updatePolicy', 'previewPolicy'),
    ...CommerceService.methods,
    ...rpcs(DispositionsService, 'getDispositions', 'getSettings', 'updateSettings'),
    ...DestinationsService.methods,
    ...FraudService.methods,
    ...WebhooksService.methods,
  ],
};

const ALLOWED: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  Object.entries(TABLE).map(([caller, methods]) => [
    caller,
    new Set(methods.map((method) => pathOf(method.parent, method))),
  ]),
);

/** Whether a caller may make this call. */
export function mayCall(
  caller: string,
  service: { readonly typeName: string },
  method: { readonly name: string },
): boolean {
  return caller === ANY_CALLER || (ALLOWED.get(caller)?.has(pathOf(service, method)) ?? false);
}

function pathOf(service: { readonly typeName: string }, method: { readonly name: string }): string {
  return `${service.typeName}/${method.name}`;
}

/** Kinds of actors outside of the system. Only the gateway has verified their credentials. */
const OUTSIDE: ReadonlySet<unknown> = new Set([
  Actor_Kind.USER,
  Actor_Kind.API_KEY,
  Actor_Kind.PARTNER_APP,
]);

/**
 * Whether a caller may act for an actor of this kind. The gateway may act for all kinds, other callers only for
 * services.
 */
export function mayNameActor(caller: string, kind: unknown): boolean {
  return caller === ANY_CALLER || caller === 'gateway' || !OUTSIDE.has(kind);
}
