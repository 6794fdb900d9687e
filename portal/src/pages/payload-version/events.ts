import type { Timestamp } from '@bufbuild/protobuf/wkt';
import type { RecentEvent } from '../../../../proto/gen/rms/portal/v1/payload_version_pb.ts';
import type { Webhook } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';

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
  readonly webhooks: readonly Webhook[];
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

function examples(webhooks: readonly Webhook[], changed: ReadonlySet<string>): Comparable[] {
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
