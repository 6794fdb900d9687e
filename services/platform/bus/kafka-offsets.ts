/** A position of a partition. Every record before it is handled. */
export interface Commit {
  readonly topic: string;
  readonly partition: number;
  /** The next offset to read. */
  readonly offset: string;
}

export interface OffsetTracker {
  /**
   * Registers a received record. No offset from it on may be committed until the returned function is called. After a
   * `clear` that call has no effect, because the record is received again.
   */
  begin(topic: string, partition: number, offset: bigint): () => void;
  /** How many records of a partition are registered and not completed. */
  open(topic: string, partition: number): number;
  /** Offsets that may be committed and are not yet. The call marks them as committed. */
  due(): Commit[];
  /** A commit of due offsets failed: they are due again. */
  redo(): void;
  clear(): void;
}

interface Received {
  readonly offset: bigint;
}

interface Partition {
  readonly topic: string;
  readonly partition: number;
  /** May hold one offset twice, and lower ones after higher ones, because reading may start again. */
  readonly open: Set<Received>;
  /** The last received offset, where reading continues. May be lower than before. */
  last: bigint;
  committed: bigint;
}

/**
 * Tracks which records are handled, in any order. The group's offset moves only to the first record of a partition that
 * is not handled.
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
