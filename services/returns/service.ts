import type { ServiceImpl } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import {
  type CheckLineItemsRequest,
  ReturnsService,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { callerShape, id, parseInput } from '../platform/input.ts';
import type { ServiceParts } from '../platform/service.ts';
import { recordArrival } from './arrivals.ts';
import { applyAssessments } from './assessments.ts';
import { cancelReturn } from './cancel.ts';
import type { Destinations } from './destinations.ts';
import { editReturn } from './edit.ts';
import { findReturn, getReturns, getSnapshot } from './find.ts';
import { fitting } from './fitting.ts';
import { flagReturn, unflagReturn } from './flag.ts';
import { applyGradings } from './gradings.ts';
import { cancelLabelRequest, requestLabel } from './label-requests.ts';
import { recordLabel, updateLabel } from './labels.ts';
import { ownersOf } from './line-owners.ts';
import type { Processing } from './processing/build.ts';
import { redactCustomer } from './redact.ts';
import { searchReturns } from './search.ts';
import { loadSettings, updateSettings } from './settings.ts';
import { recordPartnerShipment } from './shipments.ts';
import { submitReturn } from './submit.ts';
import { summarize } from './summarize.ts';
import { addNote, getTimeline } from './timeline.ts';
import { addCustomerUpload } from './uploads.ts';

type Routes = ServiceParts['routes'];

/** The gRPC face of returns: one use case per call. */
export function returnsRoutes(
  deps: { readonly pool: pg.Pool; readonly destinations: Destinations },
  processing: Processing['handlers'],
): Routes {
  const { pool } = deps;
  const handlers: ServiceImpl<typeof ReturnsService> = {
    ...processing,
    submitReturn: (request) => submitReturn(deps, request),
    editReturn: async (request) => ({ return: await editReturn(pool, request) }),
    flagReturn: async (request) => ({ return: await flagReturn(pool, request) }),
    unflagReturn: async (request) => ({ return: await unflagReturn(pool, request) }),
    cancelReturn: async (request) => ({ return: await cancelReturn(pool, request) }),
    recordLabel: async (request) => ({ label: await recordLabel(pool, request) }),
    updateLabel: async (request) => updateLabel(pool, request),
    requestLabel: async (request) => ({ labelRequest: await requestLabel(deps, request) }),
    cancelLabelRequest: async (request) => ({
      labelRequest: await cancelLabelRequest(pool, request),
    }),
    recordArrival: async (request) => ({ return: await recordArrival(deps, request) }),
    recordPartnerShipment: async (request) => ({
      shipment: await recordPartnerShipment(deps, request),
    }),
    addCustomerUpload: async (request) => ({ return: await addCustomerUpload(pool, request) }),
    addNote: async (request) => ({ entry: await addNote(pool, request) }),
    redactCustomer: async (request) => redactCustomer(pool, request),
    getReturns: async (request) => ({ returns: await getReturns(pool, request) }),
    getSnapshot: async (request) => ({ return: await getSnapshot(pool, request) }),
    findReturn: async (request) => ({ return: await findReturn(pool, request) }),
    searchReturns: async (request) => searchReturns(pool, request),
    getTimeline: async (request) => getTimeline(pool, request),
    summarize: async (request) => summarize(pool, request),
    checkLineItems: async (request) => ({ owners: await checkLineItems(pool, request) }),
    getSettings: async ({ shopId }) => ({ settings: await loadSettings(pool, shopId) }),
    updateSettings: async (request) => ({ settings: await updateSettings(pool, request) }),
    applyAssessments: async (request) => ({
      returns: fitting(await applyAssessments(pool, request)),
    }),
    applyGradings: async (request) => ({ returns: fitting(await applyGradings(pool, request)) }),
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
  return [...owners].map(([lineItemId, returnId]) => ({ lineItemId, returnId }));
}
