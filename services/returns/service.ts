import type { ServiceImpl } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import {
  type CheckLineItemsRequest,
  ReturnsService,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { callerShape, id, parseInput } from '../platform/input.ts';
import type { Logger } from '../platform/log.ts';
import type { ServiceParts } from '../platform/service.ts';
import { cancelReturn } from './cancel.ts';
import { checkReturn } from './check.ts';
import type { Providers } from './commerce/providers.ts';
import type { Destinations } from './destinations.ts';
import { editReturn } from './edit/edit.ts';
import { sweepExpired } from './expiry.ts';
import { flagReturn, unflagReturn } from './flag.ts';
import { recordGiftCard } from './gift-cards/gift-cards.ts';
import { applyAssessments } from './inspections/assessments.ts';
import { applyGradings } from './inspections/gradings.ts';
import type { InspectionStore } from './inspections/inspection-store.ts';
import { openInstantRefund, settleInstantRefund } from './instant-refunds/instant-refunds.ts';
import { cancelLabelRequest, requestLabel } from './labels/label-requests.ts';
import { recordLabel, updateLabel } from './labels/labels.ts';
import { recordArrival } from './logistics/arrivals.ts';
import { recordPartnerShipment } from './logistics/shipments.ts';
import { addNote } from './note.ts';
import { processReturn } from './processing/process.ts';
import { countEvents, readEvents } from './queries/events.ts';
import { findReturn, findReturns, getReturns, getSnapshot } from './queries/find.ts';
import { searchReturns } from './queries/search.ts';
import { summarize } from './queries/summarize.ts';
import { getTimeline } from './queries/timeline.ts';
import { redactCustomer } from './redact.ts';
import { loadSettings, updateSettings } from './settings.ts';
import { notesOf, ownersOf } from './store/line-owners.ts';
import type { ReturnReader } from './store/return-reader.ts';
import type { ReturnStore } from './store/return-store.ts';
import { submitReturn } from './submit/submit.ts';
import { addCustomerUpload } from './uploads.ts';

type Routes = ServiceParts['routes'];

export interface ReturnsDeps {
  readonly pool: pg.Pool;
  readonly store: ReturnStore;
  readonly reader: ReturnReader;
  readonly inspections: InspectionStore;
  readonly destinations: Destinations;
  readonly logger: Logger;
  readonly providers: Providers;
  /** Called when a job of processing was queued. */
  readonly onQueued: () => void;
}

/** The RPCs of returns. Each calls one use case. */
export function returnsRoutes(deps: ReturnsDeps): Routes {
  const { pool, store, reader } = deps;
  const handlers: ServiceImpl<typeof ReturnsService> = {
    async processReturn(request) {
      const answer = await processReturn(pool, request, deps.providers);
      if (answer.result.case === 'queued') deps.onQueued();
      return answer;
    },
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
    getSettings: async ({ shopId }) => ({ settings: await loadSettings(pool, shopId) }),
    updateSettings: async (request) => ({ settings: await updateSettings(pool, request) }),
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
  return [...owners].map(([lineItemId, returnId]) => ({
    lineItemId,
    returnId,
    ...notes?.get(lineItemId),
  }));
}
