import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { DispositionOutcome, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { FakeServices } from './fake-backend.ts';
import { FAKE, sampleDestinations, sampleReturn, sampleSubscription } from './fake-objects.ts';

/** Read RPCs by service, with their results. */
export type Reads = { readonly [S in keyof FakeServices]?: Readonly<Record<string, unknown>> };

/** A tool whose effect could happen twice, and the reads after each possible outcome of the first call. */
export interface Write {
  readonly tool: string;
  readonly args: object;
  /** The RPC that changes something. */
  readonly rpc: readonly [keyof FakeServices, string];
  /** The reads when the change was made. */
  readonly done: () => Reads;
  /** The reads when somebody else made another change since. */
  readonly changedSince: () => Reads;
  /** The reads that show that the change was not made. */
  readonly untouched: () => Reads;
  /** The tool that the error text names. */
  readonly whatToRead: string;
}

const returnId = Number(FAKE.returns.open);
const inState = (state: ReturnState) => () => ({ return: { ...sampleReturn(), state } });
const timeline =
  (...kinds: string[]) =>
  () => ({
    entries: kinds.map((kind, at) => ({
      id: BigInt(100 - at),
      returnId: FAKE.returns.open,
      kind,
      occurredAt: timestampFromDate(new Date()),
    })),
    nextCursor: '',
  });

const LONG_AGO = timestampFromDate(new Date('2026-01-01T00:00:00Z'));
const destination =
  (name: string, updatedAt = timestampFromDate(new Date())) =>
  () => ({
    destinations: sampleDestinations().map((one) => ({ ...one, name, updatedAt })),
  });
const webhook =
  (url: string, updatedAt = timestampFromDate(new Date())) =>
  () => ({
    subscriptions: [{ ...sampleSubscription(), url, updatedAt }],
  });
const disposed = (outcome: DispositionOutcome) => () => ({
  items: [
    {
      lineItemId: FAKE.lineItem,
      disposition: { outcome, note: 'Torn', inspectedAt: timestampFromDate(new Date()) },
    },
  ],
});

const NEW_URL = 'https://hooks.example.com/new';

export const WRITES: readonly Write[] = [
  {
    tool: 'flag_return',
    args: { return_id: returnId, reasons: ['Odd'] },
    rpc: ['returns', 'flagReturn'],
    done: () => ({
      returns: {
        findReturn: inState(ReturnState.REVIEW),
        getTimeline: timeline('return.flagged'),
      },
    }),
    changedSince: () => ({
      returns: {
        findReturn: inState(ReturnState.OPEN),
        getTimeline: timeline('return.unflagged', 'return.flagged'),
      },
    }),
    untouched: () => ({
      returns: { findReturn: inState(ReturnState.OPEN), getTimeline: timeline('label.updated') },
    }),
    whatToRead: 'get_return_timeline',
  },
  {
    tool: 'unflag_return',
    args: { return_id: returnId },
    rpc: ['returns', 'unflagReturn'],
    done: () => ({
      returns: {
        findReturn: inState(ReturnState.OPEN),
        getTimeline: timeline('return.unflagged'),
      },
    }),
    changedSince: () => ({
      returns: {
        findReturn: inState(ReturnState.REVIEW),
        getTimeline: timeline('return.flagged', 'return.unflagged'),
      },
    }),
    untouched: () => ({
      returns: { findReturn: inState(ReturnState.REVIEW), getTimeline: timeline() },
    }),
    whatToRead: 'get_return_timeline',
  },
  {
    tool: 'record_dispositions',
    args: {
      items: [{ line_item_id: Number(FAKE.lineItem), disposition_outcome: 'donate', note: 'Torn' }],
    },
    rpc: ['dispositions', 'assess'],
    done: () => ({ dispositions: { getDispositions: disposed(DispositionOutcome.DONATE) } }),
    changedSince: () => ({
      dispositions: { getDispositions: disposed(DispositionOutcome.RECYCLE) },
    }),
    untouched: () => ({ dispositions: { getDispositions: () => ({ items: [] }) } }),
    whatToRead: 'get_return',
  },
  {
    tool: 'update_destination',
    args: { destination_id: Number(FAKE.destination), name: 'Leeds 2' },
    rpc: ['destinations', 'updateDestination'],
    done: () => ({ destinations: { listDestinations: destination('Leeds 2') } }),
    changedSince: () => ({ destinations: { listDestinations: destination('Leeds 3') } }),
    untouched: () => ({ destinations: { listDestinations: destination('Leeds', LONG_AGO) } }),
    whatToRead: 'list_destinations',
  },
  {
    tool: 'update_webhook',
    args: { webhook_id: Number(FAKE.webhook), url: NEW_URL },
    rpc: ['webhooks', 'updateSubscription'],
    done: () => ({ webhooks: { listSubscriptions: webhook(NEW_URL) } }),
    changedSince: () => ({
      webhooks: { listSubscriptions: webhook('https://hooks.example.com/other') },
    }),
    untouched: () => ({
      webhooks: { listSubscriptions: webhook('https://hooks.example.com/old', LONG_AGO) },
    }),
    whatToRead: 'list_webhooks',
  },
];

export const PROCESS: Write = {
  tool: 'process_return',
  args: { return_id: returnId },
  rpc: ['returns', 'processReturn'],
  done: () => ({
    returns: {
      findReturn: inState(ReturnState.CLOSED),
      getTimeline: timeline('return.closed', 'return.processing.queued'),
    },
  }),
  changedSince: () => ({
    returns: {
      findReturn: inState(ReturnState.OPEN),
      getTimeline: timeline('return.processing.failed', 'return.processing.queued'),
    },
  }),
  untouched: () => ({ returns: { getTimeline: timeline('note') } }),
  whatToRead: 'get_return_timeline',
};
