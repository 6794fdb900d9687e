/** An offset of a partition that a consumer commits. Every record before it is handled. */
export interface Commit {
  readonly topic: string;
  readonly partition: number;
  /** The next offset to read. */
  readonly offset: string;
}

export interface OffsetTracker {
  /**
   * Registers a received record. The group's offset stays at or before the record until the returned function is
   * called. A call after `clear` has no effect, because the record arrives again.
   */
  begin(topic: string, partition: number, offset: bigint): () => void;
  /** Returns how many records of a partition are registered and not yet completed. */
  open(topic: string, partition: number): number;
  /** Returns offsets that may be committed and were not committed yet. After this call they count as committed. */
  due(): Commit[];
  /** Makes all offsets due again, because a commit failed. */
  redo(): void;
  clear(): void;
}

interface Received {
  readonly offset: bigint;
}

interface Partition {
  readonly topic: string;
  readonly partition: number;
  /** Records that are not completed. When reading starts again, an offset may be here twice, or after a higher one. */
  readonly open: Set<Received>;
  /** The last received offset. Reading continues after it. It becomes lower when reading starts again. */
  last: bigint;
  committed: bigint;
}

/**
 * Tracks which records are handled, in any order. The group's offset of a partition moves only up to the first record
 * that is not handled.
 */
export function createOffsetTracker(): OffsetTracker {
  const partitions = new Map<string, Partition>();

  const nameOf = (topic: string, partition: number): string => `${topic}/${partition}`;
  const partitionOf = (topic: string, partition: number): Partition => {
    const name = nameOf(topic, partition);
    const found = partitions.get(name);
    if (found) return found;
    const made = { topic, partition, open: new Set<Received>(), last: -1n, committed: 0n };
    partitions.set(name, made);
    return made;
  };

  return {
    begin(topic, partition, offset) {
      const state = partitionOf(topic, partition);
      const received = { offset };
      state.open.add(received);
      state.last = offset;
      return () => {
        state.open.delete(received);
      };
    },
    // Does not create the partition. For a partition without a record, `redo` would make offset 0 due.
    open: (topic, partition) => partitions.get(nameOf(topic, partition))?.open.size ?? 0,
    due() {
      const due: Commit[] = [];
      for (const state of partitions.values()) {
        const offset = lowestUndone(state);
        if (offset === state.committed) continue;
        state.committed = offset;
        due.push({ topic: state.topic, partition: state.partition, offset: String(offset) });
      }
      return due;
    },
    redo() {
      for (const state of partitions.values()) state.committed = -1n;
    },
    clear: () => partitions.clear(),
  };
}

function lowestUndone({ open, last }: Partition): bigint {
  let lowest = last + 1n;
  for (const { offset } of open) if (offset < lowest) lowest = offset;
  return lowest;
}
