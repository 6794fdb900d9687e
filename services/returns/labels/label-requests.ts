import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { LabelRequest } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type CancelLabelRequestRequest,
  CancelLabelRequestRequestSchema,
  LabelProvider,
  type RequestLabelRequest,
  RequestLabelRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { DomainError, stateForbids } from '../../platform/errors.ts';
import { claimKey, keyUseOf, oncePerKey } from '../../platform/idempotency.ts';
import { callerShape, id, parseInput } from '../../platform/input.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { type Destinations, destinationOf } from '../destinations.ts';
import { returnNotFound } from '../errors.ts';
import { isOpenOrInReview } from '../return.ts';
import { loadSettings } from '../settings.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { cancelRequest, findLabelRequest, issueLabelRequest } from './label-request-store.ts';

export interface LabelRequestDeps {
  readonly pool: pg.Pool;
  readonly store: ReturnStore;
  readonly destinations: Destinations;
}

const labelInput = z.object({ ...callerShape, returnId: id });

/**
 * Requests a label from the shop's third-party provider.
 *
 * @throws DomainError NOT_FOUND; FAILED_PRECONDITION when the shop makes its own labels, or the return is neither open
 *   nor in review; ALREADY_EXISTS when a label request is open, or the key was used with other content.
 */
export async function requestLabel(
  { pool, store, destinations }: LabelRequestDeps,
  request: RequestLabelRequest,
): Promise<LabelRequest> {
  const by = parseInput(labelInput, request);
  const settings = await loadSettings(pool, by.shopId);
  const known = await store.load(pool, by.shopId, by.returnId);
  if (!known) throw returnNotFound();
  const destination = await destinationOf(destinations, by, known.destinationId);
  const o = { by, settings, destination };
  const use = keyUseOf('RequestLabel', RequestLabelRequestSchema, request);
  return store.inTransaction(by.shopId, async (tx) => {
    const { id: requestId } = await oncePerKey(tx, use, () => issue(store, tx, o));
    return existing(tx, by.shopId, requestId);
  });
}

async function issue(
  store: ReturnStore,
  transaction: pg.PoolClient,
  o: Parameters<typeof issueLabelRequest>[2] & { readonly by: z.output<typeof labelInput> },
): Promise<bigint> {
  const { by, settings, destination } = o;
  const { value } = await store.changeIn(transaction, by, async (tx, current) => {
    if (settings.labelProvider !== LabelProvider.THIRD_PARTY) {
      throw stateForbids('the shop makes its own labels');
    }
    if (!isOpenOrInReview(current.state))
      throw stateForbids('the return is neither open nor in review');
    const issued = await issueLabelRequest(tx, current, { settings, destination });
    const text = 'A label was requested';
    return {
      value: issued.request.id,
      events: [issued.event],
      timeline: [{ returnId: current.id, kind: 'label.request.issued', text }],
    };
  });
  return value;
}

const cancellation = z.object({ ...callerShape, requestId: id });

/**
 * Cancels an open label request.
 *
 * @throws DomainError NOT_FOUND; IDEMPOTENCY_CONFLICT; FAILED_PRECONDITION when it is not open.
 */
export async function cancelLabelRequest(
  store: ReturnStore,
  request: CancelLabelRequestRequest,
): Promise<LabelRequest> {
  const input = parseInput(cancellation, request);
  const use = keyUseOf('CancelLabelRequest', CancelLabelRequestRequestSchema, request);
  return store.inTransaction(input.shopId, async (tx) => {
    const isFirst = await claimKey(tx, use, input.requestId);
    const known = await existing(tx, input.shopId, input.requestId);
    if (!isFirst) return known;
    const { returnId } = known;
    const { value } = await store.changeIn(tx, { ...input, returnId }, async (inside, current) => {
      const cancelled = await cancelRequest(inside, input.shopId, input.requestId);
      if (!cancelled) throw stateForbids('the label request is not open');
      const text = 'The label request was cancelled';
      return {
        value: cancelled.request,
        events: [cancelled.event],
        timeline: [{ returnId: current.id, kind: 'label.request.cancelled', text }],
      };
    });
    return value;
  });
}

async function existing(db: Queryable, shopId: bigint, requestId: bigint): Promise<LabelRequest> {
  const found = await findLabelRequest(db, shopId, requestId);
  if (found) return found;
  throw new DomainError(
    Code.NotFound,
    ErrorReason.LABEL_REQUEST_NOT_FOUND,
    'no such label request',
  );
}
