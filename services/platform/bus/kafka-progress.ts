import { setTimeout as sleep } from 'node:timers/promises';
import type { PartitionProgress, TopicKeeper } from './kafka-topics.ts';

/** Consumers commit their offsets every second. Milliseconds. */
const ASK_EVERY_MS = 500;
const PATIENCE_MS = 10_000;

/**
 * Whether the group has handled everything that the topic holds at this moment; waits up to 10 s for it. A group
 * without commits has caught up only if the partitions are empty. Rejects when no broker answers.
 */
export async function hasCaughtUp(
  keeper: Pick<TopicKeeper, 'progressOf'>,
  o: { readonly group: string; readonly topic: string; readonly signal: AbortSignal },
): Promise<boolean> {
  let progress = await keeper.progressOf(o.group, o.topic);
  const ends = new Map(progress.map(({ partition, end }) => [partition, end]));
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    if (progress.every((one) => isPast(one, ends.get(one.partition) ?? one.end))) return true;
    if (performance.now() > deadline) return false;
    await sleep(ASK_EVERY_MS, undefined, { signal: o.signal }).catch(() => {});
    if (o.signal.aborted) return false;
    progress = await keeper.progressOf(o.group, o.topic);
  }
}

/**
 * Whether no record below the offset is left for the group. A committed offset beyond the end dates from before the
 * partition lost its data, so it does not count for the present records.
 */
function isPast({ start, end, committed }: PartitionProgress, offset: bigint): boolean {
  return start >= offset || (committed >= offset && committed <= end);
}
