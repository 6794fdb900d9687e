import type { Timestamp } from '@bufbuild/protobuf/wkt';
import type {
  GetPayloadVersionResponse,
  PayloadVersion,
  RecentEvent,
} from '../../../../proto/gen/rms/portal/v1/payloads_pb.ts';
import type { Subscription } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';

/**
 * The version to compare the shop's with: the chosen one, or else the newest. Undefined when the shop has the newest and
 * none is chosen: what an older version would change, nobody has to know.
 */
export function otherVersion(
  { version: current, versions }: GetPayloadVersionResponse,
  chosen?: string,
): string | undefined {
  const others = versions.filter(({ version, selectable }) => selectable && version !== current);
  const found =
    others.find(({ version }) => version === chosen) ??
    others.find(({ version }) => version > current);
  return found?.version;
}

/** A change of the version, which the shop made already or could make. */
export interface VersionChange {
  readonly from: string;
  readonly to: string;
  readonly isMade: boolean;
}

/**
 * What the page says about each webhook: the change that the shop made, as long as the address names the former version,
 * or else the one that it could make.
 *
 * @param o.former the version of before, from the address.
 * @param o.other the version to compare with.
 */
export function changeOf(
  { version: current, versions }: GetPayloadVersionResponse,
  o: { readonly former: string | undefined; readonly other: string | undefined },
): VersionChange | undefined {
  const isKnown = versions.some(({ version }) => version === o.former);
  if (o.former !== undefined && isKnown && o.former !== current) {
    return { from: o.former, to: current, isMade: true };
  }
  return o.other === undefined ? undefined : { from: current, to: o.other, isMade: false };
}

/** The newest version before the shop's that payloads can have. */
export function olderVersion({
  version: current,
  versions,
}: GetPayloadVersionResponse): string | undefined {
  return versions.find(({ version, selectable }) => selectable && version < current)?.version;
}

/** The versions after one of two up to the other one. The order of the versions is the order of their names. */
export function versionsBetween(
  { versions }: Pick<GetPayloadVersionResponse, 'versions'>,
  one: string,
  other: string,
): PayloadVersion[] {
  const [older, newer] = one < other ? [one, other] : [other, one];
  return versions.filter(({ version }) => version > older && version <= newer);
}

/** The topics whose payloads differ between two versions. */
export function changedTopics(
  setting: Pick<GetPayloadVersionResponse, 'versions'>,
  one: string,
  other: string,
): ReadonlySet<string> {
  return new Set(versionsBetween(setting, one, other).flatMap((version) => version.changedTopics));
}

/** What can be compared: an event of the shop, or an example of one kind. */
export interface Comparable {
  readonly id: string;
  readonly title: string;
  /** When it happened; undefined for an example. */
  readonly at: Timestamp | undefined;
  /** The kind of an example; empty for an event of the shop. */
  readonly trigger: string;
  /** The topics that deliver it, at least one. */
  readonly topics: readonly [string, ...string[]];
  /** Whether its payload differs between the two versions. */
  readonly differs: boolean;
}

/** The kind of example that a shop without webhooks gets, too. */
const FIRST_EXAMPLE = ['return', 'return.updated'] as const;

/**
 * The shop's own recent events, and one example of each kind that its webhooks are sent. Those that differ come first.
 *
 * @param changed the topics whose payloads differ.
 */
export function comparables(o: {
  readonly events: readonly RecentEvent[];
  readonly webhooks: readonly Subscription[];
  readonly changed: ReadonlySet<string>;
}): Comparable[] {
  const all = [...o.events.flatMap(ownEvent), ...examples(o.webhooks, o.changed)];
  return [...all.filter(({ differs }) => differs), ...all.filter(({ differs }) => !differs)];
}

function ownEvent({ id, trigger, orderName, occurredAt, topics, differs }: RecentEvent) {
  const [first, ...others] = topics;
  if (first === undefined) return [];
  const title = orderName === '' ? trigger : `${trigger}, ${orderName}`;
  return [{ id, title, at: occurredAt, trigger: '', topics: [first, ...others] as const, differs }];
}

function examples(webhooks: readonly Subscription[], changed: ReadonlySet<string>): Comparable[] {
  const kinds = new Map<string, Set<string>>();
  const add = (topic: string, trigger: string) =>
    kinds.set(trigger, (kinds.get(trigger) ?? new Set()).add(topic));
  for (const { topic, trigger, delivers } of webhooks) if (delivers) add(topic, trigger);
  add(...FIRST_EXAMPLE);
  return [...kinds].flatMap(([trigger, topics]) => {
    // The topic that is compared first is one that differs.
    const [first, ...others] = [...topics].toSorted(
      (a, b) => Number(changed.has(b)) - Number(changed.has(a)),
    );
    if (first === undefined) return [];
    return [
      {
        id: `example:${trigger}`,
        title: `An example of ${trigger}`,
        at: undefined,
        trigger,
        topics: [first, ...others] as const,
        differs: changed.has(first),
      },
    ];
  });
}
