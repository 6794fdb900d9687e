import { isDeepStrictEqual } from 'node:util';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type {
  PayloadVersionSchema,
  PayloadVersionService,
} from '../../../proto/gen/rms/portal/v1/payload_version_pb.ts';
import { changeOf, shapePayload } from '../../../services/contract/shape.ts';
import { CHANGELOG_PATH, releasedVersions } from '../../../services/contract/versions.ts';
import { TOPICS, TRIGGERS } from '../../../services/contract/vocabulary.ts';
import { lastTests } from '../../actions/delivery-log.ts';
import { searchReturns } from '../../actions/search-returns.ts';
import { sendTest } from '../../actions/webhook-secrets.ts';
import { getPayloadVersion, setPayloadVersion } from '../../actions/webhooks.ts';
import { callOf } from '../call.ts';
import { idOf, invalid, keyOf, optionalWord, textOf, wordOf } from '../fields.ts';
import { exampleOf, payloadOfReturn, returnIdOf, updateOf } from '../payload-preview.ts';
import { deliveryView } from '../views/delivery.ts';

/** Number of events to choose from. */
const MAX_EVENTS = 50;

/** The API version of the shop's webhook payloads (interface: Versioning, rule 9). */
export function payloadVersionService(): ServiceImpl<typeof PayloadVersionService> {
  return {
    async getPayloadVersion(_request, context) {
      const { context: action, today } = callOf(context);
      const version = await getPayloadVersion(action);
      return { version, servedVersion: version, versions: versionViews(today) };
    },

    async setPayloadVersion({ version, expectedVersion }, context) {
      const { context: action, today } = callOf(context);
      const set = await setPayloadVersion(action, {
        version: wordOf('version', version, selectable(today)),
        expected: textOf('expected_version', expectedVersion, MAX_VERSION),
      });
      return { version: set };
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

    async previewPayload({ eventId, topic, trigger, versions }, context) {
      const { context: action, today } = callOf(context);
      const shaped = optionalWord('topic', topic, TOPICS) ?? 'return';
      const known = pairOf(versions, today);
      const payload =
        eventId === ''
          ? exampleOf(
              action.shopId,
              shaped,
              optionalWord('trigger', trigger, TRIGGERS) ?? 'return.updated',
            )
          : await payloadOfReturn(action, shaped, returnIdOf(eventId));
      const previews = known.map((version) => ({
        version,
        payload: JSON.stringify(shapePayload(version, shaped, payload), undefined, 2),
      }));
      return { previews, same: previews[0]?.payload === previews[1]?.payload };
    },

    async listVersionTests({ version }, context) {
      const call = callOf(context);
      const known = wordOf('version', version, selectable(call.today));
      return { deliveries: (await lastTests(call.context, known)).map(deliveryView) };
    },

    async sendVersionTest({ webhookId, version, trigger, idempotencyKey }, context) {
      const call = callOf(context);
      const delivery = await sendTest(call.context, idOf(webhookId, 'webhook'), {
        version: wordOf('version', version, selectable(call.today)),
        trigger: optionalWord('trigger', trigger, TRIGGERS),
        idempotencyKey: keyOf(call, idempotencyKey),
      });
      return { delivery: deliveryView(delivery) };
    },
  };
}

/** The two versions of a comparison. @throws ConnectError INVALID_ARGUMENT */
function pairOf(versions: readonly string[], today: Date): string[] {
  if (versions.length !== 2) throw invalid('versions', 'must be two versions');
  return versions.map((version) => wordOf('versions', version, selectable(today)));
}

/** Whether a payload of topic `return` differs between two versions. */
function differs(payload: object, versions: readonly string[]): boolean {
  // Parts that no version converts are the same objects in both payloads, so this comparison is cheap.
  const [one, other] = versions.map((version) => shapePayload(version, 'return', payload));
  return !isDeepStrictEqual(one, other);
}

/** Maximum length of a version in a request. It is longer than any version. Characters. */
const MAX_VERSION = 20;

/** The versions that payloads can have today. */
function selectable(today: Date): string[] {
  return releasedVersions(today)
    .filter(({ stage }) => stage !== 'sunset')
    .map(({ version }) => version);
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
