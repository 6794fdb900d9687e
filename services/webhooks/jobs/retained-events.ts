import { type Timestamp, timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Client } from '@connectrpc/connect';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { parseEvent } from '../../platform/outbox/parse.ts';
import { systemActor } from '../../platform/security/identity.ts';

/** Selects the events of one trigger that were stored in a period. */
export interface RetainedSpan {
  readonly shopId: bigint;
  readonly trigger: string;
  readonly from: Date;
  readonly to: Date;
}

export interface RetainedCount {
  /** Number of events, at most 100,000. */
  readonly count: number;
  readonly isMore: boolean;
  readonly oldestAt: Date | null;
  readonly newestAt: Date | null;
}

/** Reads the published events that the returns service still stores. Rejects when that service is unavailable. */
export interface RetainedEvents {
  count(span: RetainedSpan): Promise<RetainedCount>;
  /**
   * Reads a page, in the order in which the events were stored. The last page has an empty cursor. Other pages may have
   * no events, too.
   */
  read(
    span: RetainedSpan & { readonly cursor: string; readonly limit: number },
  ): Promise<{ events: Event[]; nextCursor: string }>;
}

/** Creates the client that reads retained events from the returns service. */
export function retainedEvents(
  returns: Pick<Client<typeof ReturnsService>, 'readEvents' | 'countEvents'>,
): RetainedEvents {
  const actor = systemActor('webhooks');
  const requestOf = ({ shopId, trigger, from, to }: RetainedSpan) => ({
    shopId,
    actor,
    triggers: [trigger],
    from: timestampFromDate(from),
    to: timestampFromDate(to),
  });
  return {
    async count(span) {
      const { count, more, oldestAt, newestAt } = await returns.countEvents(requestOf(span));
      return { count, isMore: more, oldestAt: dateOf(oldestAt), newestAt: dateOf(newestAt) };
    },
    async read(span) {
      const { cursor, limit: pageSize } = span;
      const page = await returns.readEvents({ ...requestOf(span), cursor, pageSize });
      return { events: page.events.map(parseEvent), nextCursor: page.nextCursor };
    },
  };
}

function dateOf(time: Timestamp | undefined): Date | null {
  return time ? timestampDate(time) : null;
}
