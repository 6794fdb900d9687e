import { timestampDate } from '@bufbuild/protobuf/wkt';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { About } from '../sink/about.ts';
import type { Receipt } from '../sink/arrival-log.ts';

const STATES: Readonly<Record<number, string | null>> = {
  [ReturnState.UNSPECIFIED]: null,
  [ReturnState.OPEN]: 'open',
  [ReturnState.REVIEW]: 'review',
  [ReturnState.CLOSED]: 'closed',
  [ReturnState.CANCELLED]: 'cancelled',
  [ReturnState.EXPIRED]: 'expired',
};

/** A request and the content of its body. */
type Request = Pick<Receipt, 'webhookId' | 'path' | 'trigger' | 'sequence' | 'about'>;

/**
 * Compares a request with its stored event, because a correctly signed body may still belong to another return, trigger
 * or revision. It does not use the code that shapes payloads.
 *
 * @returns the difference as text, or undefined.
 */
export function differenceFrom(request: Request, event: Event): string | undefined {
  const { sequence, trigger: header, about } = request;
  const given: Record<string, unknown> = { sequence, header, ...about };
  const expected = {
    sequence: Number(event.revision),
    header: event.trigger,
    ...expectedContent(event),
  };
  const wrong = Object.entries(expected).flatMap(([name, value]) => {
    const [is, should] = [JSON.stringify(given[name]), JSON.stringify(value)];
    return is === should ? [] : [`${name} is ${is}, not ${should}`];
  });
  if (wrong.length === 0) return undefined;
  return `${request.webhookId} at ${request.path} had another content: ${wrong.join(', ')}`;
}

/** The expected content of a body of the topic `return`: the return as it was after the change. */
function expectedContent({ trigger, shopId, returnId, snapshot }: Event): About {
  return {
    topic: 'return',
    trigger,
    shopId: Number(shopId),
    returnId: Number(returnId),
    ...(snapshot
      ? {
          state: STATES[snapshot.state],
          updatedAt: snapshot.updatedAt && secondOf(timestampDate(snapshot.updatedAt)),
          labels: snapshot.labels.map(({ trackingNumber }) => trackingNumber),
        }
      : { state: undefined, updatedAt: undefined, labels: undefined }),
  };
}

/** `2026-11-21 10:00:00` in UTC. */
function secondOf(time: Date): string {
  return time.toISOString().slice(0, 19).replace('T', ' ');
}
