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

interface Received {
  readonly offset: bigint;
}

interface Partition {
  readonly topic: string;
  readonly partition: number;
  /** An offset may be here twice, and lower ones after higher ones: reading may begin again. */
  readonly open: Set<Received>;
  /** The last one received: where reading goes on, which may be lower than it was. */
  last: bigint;
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
    const made = { topic, partition, open: new Set<Received>(), last: -1n, committed: 0n };
    partitions.set(name, made);
    return made;
  };

  return {
    begin(topic, partition, offset) {
      const p = of(topic, partition);
      const received = { offset };
      p.open.add(received);
      p.last = offset;
      return () => {
        p.open.delete(received);
      };
    },
    open: (topic, partition) => of(topic, partition).open.size,
    due() {
      const due: Commit[] = [];
      for (const p of partitions.values()) {
        const offset = lowestUndone(p);
        if (offset === p.committed) continue;
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

function lowestUndone({ open, last }: Partition): bigint {
  let lowest = last + 1n;
  for (const { offset } of open) if (offset < lowest) lowest = offset;
  return lowest;
}
