import { isDeepStrictEqual } from 'node:util';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate, timestampNow } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import { EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type {
  PayloadsService,
  PayloadVersionSchema,
} from '../../../proto/gen/rms/portal/v1/payloads_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { sampleEvent } from '../../../services/contract/sample-event.ts';
import { changeOf, shapePayload } from '../../../services/contract/shape.ts';
import {
  payloadOf,
  TOPIC_SHAPES,
  TRIGGER_TEXTS,
} from '../../../services/contract/topics/topics.ts';
import { CHANGELOG_PATH, releasedVersions } from '../../../services/contract/versions.ts';
import {
  TOPICS,
  type Topic,
  TRIGGERS,
  type Trigger,
} from '../../../services/contract/vocabulary.ts';
import { findReturn } from '../../actions/returns.ts';
import { searchReturns } from '../../actions/search-returns.ts';
import { getPayloadVersion } from '../../actions/webhooks.ts';
import { callOf } from '../call.ts';
import { idOf, invalid, notFound, optionalWord, wordOf } from '../fields.ts';

/** Number of events to choose from. */
const MAX_EVENTS = 50;

/** The payloads of the shop's webhooks: their topics, triggers and API versions (interface: Versioning, rule 9). */
export function payloadsService(): ServiceImpl<typeof PayloadsService> {
  return {
    listEventTypes: () => ({
      topics: TOPICS.map((topic) => {
        const { about, triggers } = TOPIC_SHAPES[topic];
        return { topic, description: about, delivers: [...triggers] };
      }),
      triggers: TRIGGERS.map((name) => ({ name, description: TRIGGER_TEXTS[name][0] })),
    }),

    async getPayloadVersion(_request, context) {
      const { context: action, today } = callOf(context);
      return { version: await getPayloadVersion(action), versions: versionViews(today) };
    },

    async listRecentEvents({ versions }, context) {
      const { context: action, today } = callOf(context);
      const pair = versions.length === 0 ? undefined : pairOf(versions, today);
      const search = { includeArchived: true, byChange: true, limit: MAX_EVENTS };
      const { returns } = await searchReturns(action, search);
      return {
        events: returns.map((ret) => ({
          id: `return:${ret.id}`,
          trigger: 'return.updated',
          topics: ['return'],
          returnId: String(ret.id),
          orderName: ret.order?.name ?? '',
          ...(ret.updatedAt && { occurredAt: ret.updatedAt }),
          differs: pair !== undefined && differs(updateOf(action.shopId, 'return', ret), pair),
        })),
      };
    },

    async previewPayload(request, context) {
      const { context: action, today } = callOf(context);
      const topic = optionalWord('topic', request.topic, TOPICS) ?? 'return';
      const versions = pairOf(request.versions, today);
      const payload =
        request.eventId === ''
          ? exampleOf(
              action.shopId,
              topic,
              optionalWord('trigger', request.trigger, TRIGGERS) ?? 'return.updated',
            )
          : updateOf(
              action.shopId,
              topic,
              await findReturn(action, { case: 'returnId', value: returnIdOf(request.eventId) }),
            );
      const previews = versions.map((version) => ({
        version,
        payload: JSON.stringify(shapePayload(version, topic, payload), undefined, 2),
      }));
      return { previews, same: previews[0]?.payload === previews[1]?.payload };
    },
  };
}

/** The two versions of a comparison. @throws ConnectError INVALID_ARGUMENT */
function pairOf(versions: readonly string[], today: Date): string[] {
  if (versions.length !== 2) throw invalid('versions', 'must be two versions');
  const selectable = releasedVersions(today)
    .filter(({ stage }) => stage !== 'sunset')
    .map(({ version }) => version);
  return versions.map((version) => wordOf('versions', version, selectable));
}

/** Whether a payload of topic `return` differs between two versions. */
function differs(payload: object, versions: readonly string[]): boolean {
  // Parts that no version converts are the same objects in both payloads, so this comparison is cheap.
  const [one, other] = versions.map((version) => shapePayload(version, 'return', payload));
  return !isDeepStrictEqual(one, other);
}

/** Newest first. */
function versionViews(today: Date): MessageInitShape<typeof PayloadVersionSchema>[] {
  return releasedVersions(today)
    .map(({ version, stage, deprecatedAt, sunsetAt }) => ({
      version,
      stage,
      changelogPath: CHANGELOG_PATH,
      selectable: stage !== 'sunset',
      about: changeOf(version)?.about ?? '',
      inWords: changeOf(version)?.inWords ?? '',
      changedTopics: [...(changeOf(version)?.topics ?? [])],
      deprecatedAt: timestampFromDate(deprecatedAt),
      sunsetAt: timestampFromDate(sunsetAt),
    }))
    .reverse();
}

/** The id of the return in the id of a recent event. @throws ConnectError NOT_FOUND for another text. */
function returnIdOf(eventId: string): bigint {
  const [, id] = /^return:(\d{1,16})$/.exec(eventId) ?? [];
  if (id === undefined) throw notFound('event');
  return idOf(id, 'event');
}

/**
 * The payload, in the newest form, of an update of a return as it is now.
 *
 * @throws ConnectError INVALID_ARGUMENT when the topic does not deliver updates of returns.
 */
function updateOf(shopId: bigint, topic: Topic, snapshot: Return): object {
  const event = create(EventSchema, {
    eventId: crypto.randomUUID(),
    shopId,
    trigger: 'return.updated',
    occurredAt: timestampNow(),
    snapshot,
  });
  return payloadOf(topic, event, snapshot) ?? reject(topic, event.trigger);
}

/** The payload of documented sample data, in the newest form. @throws as {@link updateOf}. */
function exampleOf(shopId: bigint, topic: Topic, trigger: Trigger): object {
  const event = sampleEvent(trigger, shopId, crypto.randomUUID());
  return payloadOf(topic, event, event.snapshot) ?? reject(topic, trigger);
}

function reject(topic: string, trigger: string): never {
  throw invalid('topic', `must deliver the trigger ${trigger}, which ${topic} does not`);
}
