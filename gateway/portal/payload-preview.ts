import { create } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { EventSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import type { Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { sampleEvent } from '../../services/contract/sample-event.ts';
import { payloadOf } from '../../services/contract/topics/topics.ts';
import type { Topic, Trigger } from '../../services/contract/vocabulary.ts';
import type { ActionContext } from '../actions/context.ts';
import { findReturn } from '../actions/returns.ts';
import { idOf, invalid, notFound } from './fields.ts';

/** The id of the return in the id of a recent event. @throws ConnectError NOT_FOUND for another text. */
export function returnIdOf(eventId: string): bigint {
  const [, id] = /^return:(\d{1,16})$/.exec(eventId) ?? [];
  if (id === undefined) throw notFound('event');
  return idOf(id, 'event');
}

/**
 * The payload, in the newest form, of an update of a return as it is now.
 *
 * @throws ConnectError INVALID_ARGUMENT when the topic does not deliver updates of returns.
 */
export async function payloadOfReturn(
  context: ActionContext,
  topic: Topic,
  returnId: bigint,
): Promise<object> {
  const snapshot = await findReturn(context, { case: 'returnId', value: returnId });
  return updateOf(context.shopId, topic, snapshot);
}

/** The same for a return that is already there. @throws as {@link payloadOfReturn}. */
export function updateOf(shopId: bigint, topic: Topic, snapshot: Return): object {
  const event = create(EventSchema, {
    eventId: crypto.randomUUID(),
    shopId,
    trigger: 'return.updated',
    occurredAt: timestampNow(),
    snapshot,
  });
  return payloadOf(topic, event, snapshot) ?? reject(topic, event.trigger);
}

/** The payload of documented sample data, in the newest form. @throws as {@link payloadOfReturn}. */
export function exampleOf(shopId: bigint, topic: Topic, trigger: Trigger): object {
  const event = sampleEvent(trigger, shopId, crypto.randomUUID());
  return payloadOf(topic, event, event.snapshot) ?? reject(topic, trigger);
}

function reject(topic: string, trigger: string): never {
  throw invalid('topic', `must deliver the trigger ${trigger}, which ${topic} does not`);
}
