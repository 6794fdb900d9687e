import { setTimeout as sleep } from 'node:timers/promises';
import type { PartitionProgress, TopicKeeper } from './kafka-topics.ts';

/** A consumer commits every second what it has dealt with. Milliseconds. */
const ASK_EVERY_MS = 500;
const PATIENCE_MS = 10_000;

/**
 * Whether the group has dealt with everything that the topic holds at this moment; waits up to 10 s for it.
 * A group that has committed nothing has caught up with empty partitions only. Rejects when no broker answers.
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
 * Whether nothing below the offset is left for the group. An offset beyond the end was committed before the partition
 * lost its data: it says nothing of the records that are there now.
 */
function isPast({ start, end, committed }: PartitionProgress, offset: bigint): boolean {
  return start >= offset || (committed >= offset && committed <= end);
}
