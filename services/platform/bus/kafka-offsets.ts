/** A position of a partition. Every record before it is handled. */
export interface Commit {
  readonly topic: string;
  readonly partition: number;
  /** The next offset to read. */
  readonly offset: string;
}

export interface OffsetTracker {
  /**
   * Registers a received record. The group's offset does not move past it until the returned function is called. After
   * `clear` that call has no effect, because the record arrives again.
   */
  begin(topic: string, partition: number, offset: bigint): () => void;
  /** Returns the number of records of a partition that are registered and not completed. */
  open(topic: string, partition: number): number;
  /** Returns offsets that may be committed and are not committed yet. The call marks them as committed. */
  due(): Commit[];
  /** Makes all offsets due again after a failed commit. */
  redo(): void;
  clear(): void;
}

interface Received {
  readonly offset: bigint;
}

interface Partition {
  readonly topic: string;
  readonly partition: number;
  /** May contain an offset twice, and a lower offset after a higher one, because reading may start again. */
  readonly open: Set<Received>;
  /** The last received offset. Reading continues after it. May become lower. */
  last: bigint;
  committed: bigint;
}

/**
 * Tracks which records are handled, in any order. The group's offset moves only to the first record of a partition that
 * is not handled.
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
    // A question must not create the partition: without a record, `redo` would make offset 0 due.
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
