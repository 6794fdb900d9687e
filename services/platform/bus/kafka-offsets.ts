/** A position up to which everything of a partition is dealt with. */
export interface Commit {
  readonly topic: string;
  readonly partition: number;
  /** The next offset to read. */
  readonly offset: string;
}

export interface OffsetTracker {
  /**
   * A record was received: nothing from it on may be committed until what is returned was called.
   * After a `clear` that call says nothing any more: the record is received again.
   */
  begin(topic: string, partition: number, offset: bigint): () => void;
  /** Records begun and not ended, of one partition. */
  open(topic: string, partition: number): number;
  /** What may be committed and is not yet; asking marks it as committed. */
  due(): Commit[];
  /** Something due could not be committed: it is due again. */
  redo(): void;
  clear(): void;
}

interface Partition {
  readonly topic: string;
  readonly partition: number;
  /** In the order received, which is the order of offsets. */
  readonly openOffsets: Set<bigint>;
  highest: bigint;
  committed: bigint;
}

/**
 * Follows which records are dealt with, out of order, and says up to where a partition is done
 * without a gap: only that far may the group's offset move.
 */
export function createOffsetTracker(): OffsetTracker {
  const partitions = new Map<string, Partition>();

  const of = (topic: string, partition: number): Partition => {
    const name = `${topic}/${partition}`;
    const found = partitions.get(name);
    if (found) return found;
    const made = { topic, partition, openOffsets: new Set<bigint>(), highest: -1n, committed: -1n };
    partitions.set(name, made);
    return made;
  };

  const next = (p: Partition): bigint => {
    const [oldest] = p.openOffsets;
    return oldest ?? p.highest + 1n;
  };

  return {
    begin(topic, partition, offset) {
      const p = of(topic, partition);
      p.openOffsets.add(offset);
      p.highest = offset;
      return () => {
        p.openOffsets.delete(offset);
      };
    },
    open: (topic, partition) => of(topic, partition).openOffsets.size,
    due() {
      const due: Commit[] = [];
      for (const p of partitions.values()) {
        const offset = next(p);
        if (offset <= p.committed || offset === 0n) continue;
        p.committed = offset;
        due.push({ topic: p.topic, partition: p.partition, offset: String(offset) });
      }
      return due;
    },
    redo() {
      for (const p of partitions.values()) p.committed = -1n;
    },
    clear: () => partitions.clear(),
  };
}
