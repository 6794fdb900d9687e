import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { CommerceService } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import {
  type CheckLineItemsRequest,
  ReturnsService,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { type CheckRuns, lastCheck } from '../commerce/check/runs.ts';
import {
  type ConnectionDeps,
  commerceSecretMessage,
  connectionMessage,
  connectShop,
  disconnectShop,
  getConnection,
  rotateCommerceSecret,
  runCheck,
  startCheck,
} from '../commerce/connections.ts';
import { findOrderOnRequest, type OrderFinder } from '../commerce/find-order.ts';
import { receiveEvent } from '../commerce/http/events.ts';
import type { Providers } from '../commerce/providers.ts';
import { type ReconcileDeps, reconcileOnRequest } from '../commerce/reconciliations.ts';
import { recordSampleOrders } from '../commerce/sample-orders.ts';
import {
  beginInstall,
  completeInstall,
  createInstallLink,
} from '../commerce/shopify-app/install.ts';
import {
  listDataRequests,
  receiveWebhook,
  type WebhookDeps,
} from '../commerce/shopify-app/receive-webhook.ts';
import type { ServiceParts } from '../platform/process/service.ts';
import type { Logger } from '../platform/telemetry/log.ts';
import { callerShape, id, parseInput } from '../platform/values/input.ts';
import { listArrivals } from './arrivals/list-arrivals.ts';
import { listExpected } from './arrivals/list-expected.ts';
import { recordReceipt } from './arrivals/record-receipt.ts';
import type { Destinations } from './destinations.ts';
import { editReturn } from './edit/edit.ts';
import { recordGiftCard } from './gift-cards/gift-cards.ts';
import { recordOrder, recordRefund } from './inbound/record-reports.ts';
import type { InspectionStore } from './inspections/inspection-store.ts';
import { applyAssessments, applyGradings } from './inspections/inspections.ts';
import { openInstantRefund, settleInstantRefund } from './instant-refunds/instant-refunds.ts';
import { cancelLabelRequest, requestLabel } from './labels/label-requests.ts';
import { recordLabel, updateLabel } from './labels/labels.ts';
import { recordArrival, recordPartnerShipment } from './logistics/logistics.ts';
import { getPolicy, updatePolicy } from './policy/change-policy.ts';
import { getEligibility } from './policy/get-eligibility.ts';
import { previewPolicy } from './policy/preview.ts';
import { listEffects, type SettleDeps, settleEffect } from './processing/effects.ts';
import { processReturn } from './processing/process.ts';
import type { JobPlaces } from './processing/worker.ts';
import { countEvents, readEvents } from './queries/events.ts';
import { findReturn, findReturns, getReturns, getSnapshot } from './queries/find.ts';
import { searchReturns } from './queries/search.ts';
import { summarize } from './queries/summarize.ts';
import { getTimeline } from './queries/timeline.ts';
import { sweepExpired } from './retention/expiry.ts';
import { redactCustomer } from './retention/redact.ts';
import { cancelReturn } from './review/cancel.ts';
import { checkReturn } from './review/check.ts';
import { flagReturn, unflagReturn } from './review/flag.ts';
import { addNote } from './review/note.ts';
import { addCustomerUpload } from './review/uploads.ts';
import { findShopperPage, loadSettings, updateSettings } from './settings.ts';
import { findShopperReturn } from './status-links.ts';
import { notesOf, ownersOf } from './store/line-owners.ts';
import type { ReturnReader } from './store/return-reader.ts';
import type { ReturnStore } from './store/return-store.ts';
import { submitReturn } from './submit/submit.ts';
import { declareWithdrawal, listWithdrawals, returnWithdrawal } from './withdrawals/withdrawals.ts';

type Routes = ServiceParts['routes'];

interface ReturnsDeps {
  readonly pool: pg.Pool;
  readonly store: ReturnStore;
  readonly reader: ReturnReader;
  readonly inspections: InspectionStore;
  readonly destinations: Destinations;
  readonly logger: Logger;
  readonly providers: Providers;
  readonly orders: OrderFinder;
  readonly places: JobPlaces;
  /** Called when a withdrawal waits for its return. */
  readonly onWithdrawal: () => void;
}

/** The RPCs of returns. Each calls one use case. */
export function returnsRoutes(deps: ReturnsDeps): Routes {
  const { pool, store, reader } = deps;
  const handlers: ServiceImpl<typeof ReturnsService> = {
    processReturn: (request) => processReturn(pool, request, deps.providers, deps.places),
    checkReturn: (request) => checkReturn(pool, request, deps.providers),
    openInstantRefund: async (request) => ({ credit: await openInstantRefund(pool, request) }),
    settleInstantRefund: async (request) => ({ credit: await settleInstantRefund(pool, request) }),
    sweepExpired: async ({ shopId }) => ({ expired: await sweepExpired(deps, { shopId }) }),
    submitReturn: (request) => submitReturn(deps, request),
    editReturn: async (request) => ({ return: await editReturn(store, request) }),
    flagReturn: async (request) => ({ return: await flagReturn(store, request) }),
    unflagReturn: async (request) => ({ return: await unflagReturn(store, request) }),
    cancelReturn: async (request) => ({ return: await cancelReturn(store, request) }),
    recordGiftCard: async (request) => ({ giftCard: await recordGiftCard(store, request) }),
    recordLabel: async (request) => ({ label: await recordLabel(store, request) }),
    updateLabel: async (request) => updateLabel(deps, request),
    requestLabel: async (request) => ({ labelRequest: await requestLabel(deps, request) }),
    cancelLabelRequest: async (request) => ({
      labelRequest: await cancelLabelRequest(store, request),
    }),
    recordArrival: async (request) => ({ return: await recordArrival(deps, request) }),
    recordPartnerShipment: async (request) => ({
      shipment: await recordPartnerShipment(deps, request),
    }),
    addCustomerUpload: async (request) => ({ return: await addCustomerUpload(deps, request) }),
    addNote: async (request) => ({ entry: await addNote(pool, request) }),
    redactCustomer: async (request) => redactCustomer(deps, request),
    getReturns: async (request) => ({ returns: [...(await getReturns(reader, request))] }),
    readEvents: async (request) => readEvents(pool, request),
    countEvents: async (request) => countEvents(pool, request),
    getSnapshot: async (request) => ({ return: await getSnapshot(reader, request) }),
    findReturn: async (request) => ({ return: await findReturn(deps, request) }),
    findReturns: async (request) => ({ found: await findReturns(deps, request) }),
    searchReturns: async (request) => {
      const found = await searchReturns(deps, request);
      const { returns, summaries, fraudReportedIds, ...rest } = found;
      return {
        ...rest,
        returns: [...returns],
        summaries: [...summaries],
        fraudReportedIds: [...fraudReportedIds],
      };
    },
    getTimeline: async (request) => getTimeline(pool, request),
    summarize: async (request) => summarize(pool, request),
    checkLineItems: async (request) => ({ owners: await checkLineItems(pool, request) }),
    recordReceipt: (request) => recordReceipt(deps, request),
    listArrivals: async (request) => ({ arrivals: await listArrivals(pool, request) }),
    listExpected: (request) => listExpected(pool, request),
    getPolicy: (request) => getPolicy(pool, request),
    updatePolicy: (request) => updatePolicy(pool, request),
    previewPolicy: (request) => previewPolicy(pool, request),
    getEligibility: async (request) => ({ eligibility: await getEligibility(deps, request) }),
    getSettings: async ({ shopId }) => ({ settings: await loadSettings(pool, shopId) }),
    findShopperReturn: async (request) => ({ return: await findShopperReturn(deps, request) }),
    declareWithdrawal: async (request) => ({
      withdrawal: await declareWithdrawal({ pool, onJob: deps.onWithdrawal }, request),
    }),
    listWithdrawals: (request) => listWithdrawals(pool, request),
    returnWithdrawal: async (request) => ({ return: await returnWithdrawal(deps, request) }),
    findShopperPage: (request) => findShopperPage(pool, request),
    updateSettings: (request) => updateSettings(pool, request),
    applyAssessments: async (request) => ({
      returns: [...(await applyAssessments(deps.inspections, request))],
    }),
    applyGradings: async (request) => ({
      returns: [...(await applyGradings(deps.inspections, request))],
    }),
  };
  return (router) => router.service(ReturnsService, handlers);
}

const lineCheck = z.object({
  ...callerShape,
  lineItemIds: z.array(id).min(1, 'must hold at least one').max(1_000, 'must hold at most 1000'),
});

async function checkLineItems(pool: pg.Pool, request: CheckLineItemsRequest) {
  const { shopId, lineItemIds } = parseInput(lineCheck, request);
  const owners = await ownersOf(pool, shopId, lineItemIds);
  const notes = request.withNotes ? await notesOf(pool, shopId, lineItemIds) : undefined;
  return [...owners].map(([lineItemId, owner]) => ({
    lineItemId,
    ...owner,
    ...notes?.get(lineItemId),
  }));
}

const ofReturn = z.object({ ...callerShape, returnId: id });

/** What commerce gets of returns, because it does not import it. */
const OF_RETURNS = { loadSettings, recordOrder, recordRefund };

/** The RPCs about commerce providers. Each calls one use case. */
export function commerceRoutes(
  given: Omit<
    ConnectionDeps & ReconcileDeps & SettleDeps & WebhookDeps & { readonly checkRuns: CheckRuns },
    keyof typeof OF_RETURNS
  >,
): ServiceParts['routes'] {
  const deps = { ...given, ...OF_RETURNS };
  const { pool } = deps;
  const handlers: ServiceImpl<typeof CommerceService> = {
    async connect(request) {
      const { connection, secret } = await connectShop(deps, request);
      const made = secret && { secret: commerceSecretMessage(secret) };
      return { connection: connectionMessage(connection), ...made };
    },
    getConnection: async ({ shopId }) => ({
      connection: connectionMessage(await getConnection(pool, shopId)),
    }),
    rotateSecret: async (request) => ({
      secret: commerceSecretMessage(await rotateCommerceSecret(deps, request)),
    }),
    disconnect: async (request) => ({ disconnected: await disconnectShop(pool, request) }),
    runCheck: (request) => runCheck(deps, request),
    startCheck: async (request) => ({ run: await startCheck(deps, request) }),
    async getLastCheck({ shopId }) {
      const run = await lastCheck(pool, shopId);
      return run ? { run } : {};
    },
    reconcile: (request) => reconcileOnRequest(deps, request),
    receiveEvent: async (request) => ({ result: await receiveEvent(deps, request) }),
    async listEffects(request) {
      return { effects: await listEffects(pool, parseInput(ofReturn, request)) };
    },
    findOrder: (request) => findOrderOnRequest(deps, request),
    recordSampleOrders: async (request) => ({
      recorded: await recordSampleOrders(deps, request),
    }),
    settleEffect: async (request) => ({ effect: await settleEffect(deps, request) }),
    async createShopifyInstallLink(request) {
      const { link, expiresAt } = await createInstallLink(deps, request);
      return { link, expiresAt: timestampFromDate(expiresAt) };
    },
    beginShopifyInstall: (request) => beginInstall(deps, request),
    completeShopifyInstall: (request) => completeInstall(deps, request),
    receiveShopifyWebhook: async (request) => ({ accepted: await receiveWebhook(deps, request) }),
    listShopifyDataRequests: async ({ shopId }) => ({
      requests: await listDataRequests(pool, shopId),
    }),
  };
  return (router) => router.service(CommerceService, handlers);
}
