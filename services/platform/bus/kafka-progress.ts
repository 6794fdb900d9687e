import { setTimeout as sleep } from 'node:timers/promises';
import type { PartitionProgress, TopicKeeper } from './kafka-topics.ts';

/** Pause between two checks. Consumers commit their offsets every second. Milliseconds. */
const CHECK_EVERY_MS = 500;
const TIMEOUT_MS = 10_000;

/**
 * Whether the group has handled all records that the topic has at this moment. Waits up to 10 s until it has. A group
 * without commits has caught up only if the partitions are empty. Rejects when no broker answers.
 */
export async function hasCaughtUp(
  keeper: Pick<TopicKeeper, 'progressOf'>,
  o: { readonly group: string; readonly topic: string; readonly signal: AbortSignal },
): Promise<boolean> {
  let progress = await keeper.progressOf(o.group, o.topic);
  const ends = new Map(progress.map(({ partition, end }) => [partition, end]));
  const deadline = performance.now() + TIMEOUT_MS;
  for (;;) {
    if (progress.every((one) => isPast(one, ends.get(one.partition) ?? one.end))) return true;
    if (performance.now() > deadline) return false;
    await sleep(CHECK_EVERY_MS, undefined, { signal: o.signal }).catch(() => {});
    if (o.signal.aborted) return false;
    progress = await keeper.progressOf(o.group, o.topic);
  }
}

/**
 * Whether the group has handled all records below the offset. A committed offset beyond the end is from before the
 * partition lost its data. It does not say which of the current records are handled.
 */
function isPast({ start, end, committed }: PartitionProgress, offset: bigint): boolean {
  return start >= offset || (committed >= offset && committed <= end);
}
