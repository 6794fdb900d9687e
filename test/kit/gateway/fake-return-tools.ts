import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code, type ServiceImpl } from '@connectrpc/connect';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { Outcome, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  SearchReturnsRequest_Archived as Archived,
  type ReturnsService,
  type SearchReturnsRequest,
  type SearchReturnsResponseSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { DomainError, invalidField } from '../../../services/platform/values/errors.ts';
import { idempotencyConflict } from '../../../services/platform/values/idempotency.ts';
import { FAKE, NOW, sampleReturn } from './fake-objects.ts';

/** The RPCs of the returns service that only tools use. Changes return one open return with the new state. */
export function fakeReturnTools(): Partial<ServiceImpl<typeof ReturnsService>> {
  return {
    searchReturns: (request) => {
      const { cursor, pageSize, withoutLongTexts } = request;
      if (request.summaries) return summaryPage(request);
      // No tool returns them, and loading them is expensive.
      if (!withoutLongTexts) throw invalidField('without_long_texts', 'must be set');
      if (cursor !== '' && cursor !== 'next') {
        throw invalidField('cursor', 'must be a cursor returned by this service');
      }
      const isFirst = cursor === '';
      return {
        returns: [{ ...sampleReturn(), destinationId: FAKE.destination }],
        nextCursor: isFirst && pageSize === 1 ? 'next' : '',
        total: 2,
      };
    },
    getTimeline: ({ returnId, cursor, pageSize }) => {
      requireOpen(returnId);
      if (cursor !== '' && cursor !== 'next') {
        throw invalidField('cursor', 'must be a cursor returned by this service');
      }
      const actor = { kind: Actor_Kind.USER, id: '5', name: 'Ada' };
      const entry = { id: 7n, returnId, occurredAt: NOW, kind: 'note', text: 'Looked', actor };
      return {
        entries: [{ ...entry, author: 'Ada', facts: { a: 'b' } }],
        nextCursor: cursor === '' && pageSize === 1 ? 'next' : '',
      };
    },
    listExpected: ({ cursor, pageSize }) => ({
      lines: [
        {
          returnId: FAKE.returns.open,
          lineItemId: FAKE.lineItem,
          orderName: '#1001',
          sku: 'S-1',
          title: 'Scarf',
          expectedQuantity: 2,
          arrivedQuantity: 1,
        },
      ],
      nextCursor: cursor === '' && pageSize === 1 ? 'next' : '',
    }),
    recordReceipt: ({ return: by, items, idempotencyKey, unexpected }) => {
      const isNamed = by.case !== 'returnId' && by.value === FAKE.otherContent;
      if (isNamed) throw idempotencyConflict();
      if (by.case === 'returnId') requireOpen(by.value);
      if (by.case === 'orderName' && by.value !== '#1001') requireOpen(0n);
      const returnId = FAKE.returns.open;
      const repeated = idempotencyKey === '';
      return {
        arrival: { id: 71n, returnId, returnState: ReturnState.CLOSED, items, unexpected },
        repeated,
      };
    },
    listArrivals: ({ returnId }) => {
      requireOpen(returnId);
      return { arrivals: [{ id: 71n, returnId, arrivedAt: NOW }] };
    },
    summarize: () => ({
      total: 1,
      byState: [{ state: ReturnState.OPEN, count: 1 }],
      byOutcome: [{ outcome: Outcome.REFUND, count: 1, returnTotal: '10.00' }],
      byReason: [{ reason: 'Too small', count: 1 }],
    }),
    addNote: ({ returnId, text, actor }) => {
      requireOpen(returnId);
      const author = actor?.name ?? '';
      const by = actor && { actor };
      return { entry: { id: 8n, returnId, occurredAt: NOW, kind: 'note', text, author, ...by } };
    },
    flagReturn: ({ returnId }) => moved(returnId, ReturnState.REVIEW),
    unflagReturn: ({ returnId }) => {
      if (returnId === FAKE.returns.flagged) return { return: sampleReturn() };
      return moved(returnId, ReturnState.OPEN);
    },
    cancelReturn: ({ returnId }) => moved(returnId, ReturnState.CANCELLED),
  };
}

/** The summary of an open return, with its details. */
export function sampleSummary() {
  const { order } = sampleReturn();
  const totals = {
    total: '10.00',
    refund: '10.00',
    returnCreditTotal: '0.00',
    handlingFee: '0.00',
  };
  return {
    id: FAKE.returns.open,
    ...(order && { order }),
    state: ReturnState.OPEN,
    currency: 'GBP',
    presentmentCurrency: 'EUR',
    totals,
    presentmentTotals: totals,
    outcome: Outcome.REFUND,
    destinationId: FAKE.destination,
    createdAt: NOW,
    updatedAt: NOW,
    details: {
      customerFirstName: 'Jane',
      customerLastName: 'Doe',
      customerEmail: 'jane@example.com',
      units: 2,
      titles: ['Shirt', 'Socks'],
      flagReasons: [],
      fraudReported: false,
    },
  };
}

/** One open return, unless the request has only archived ones. */
function summaryPage({
  cursor,
  pageSize,
  archived,
  details: hasDetails,
}: SearchReturnsRequest): MessageInitShape<typeof SearchReturnsResponseSchema> {
  if (cursor !== '' && cursor !== 'next') {
    throw invalidField('cursor', 'must be a cursor returned by this service');
  }
  const { details, ...rest } = sampleSummary();
  const summary = { ...rest, ...(hasDetails && { details }) };
  return {
    summaries: archived === Archived.ONLY ? [] : [summary],
    nextCursor: cursor === '' && pageSize === 1 ? 'next' : '',
    total: hasDetails ? 1 : 0,
  };
}

function moved(returnId: bigint, state: ReturnState) {
  requireOpen(returnId);
  return { return: { ...sampleReturn(), state } };
}

function requireOpen(returnId: bigint): void {
  if (returnId === FAKE.returns.open) return;
  if (returnId === FAKE.returns.closed) {
    const text = 'the return is closed';
    throw new DomainError(Code.FailedPrecondition, ErrorReason.STATE_FORBIDS, text);
  }
  throw new DomainError(Code.NotFound, ErrorReason.RETURN_NOT_FOUND, 'no return');
}
