/** A map whose entries expire. When it is full, it drops the entry that was written first. */
export interface BoundedCache<V> {
  get(key: string): V | undefined;
  set(key: string, value: V, ttlMs: number): void;
  clear(): void;
}

/** Creates a cache. @param maxEntries maximum number of entries, so that invented keys cannot use up the memory. */
export function createBoundedCache<V>(maxEntries: number): BoundedCache<V> {
  const entries = new Map<string, { value: V; until: number }>();
  return {
    get(key) {
      const entry = entries.get(key);
      if (!entry) return undefined;
      if (entry.until > performance.now()) return entry.value;
      entries.delete(key);
      return undefined;
    },
    set(key, value, ttlMs) {
      entries.delete(key);
      entries.set(key, { value, until: performance.now() + ttlMs });
      if (entries.size <= maxEntries) return;
      const [oldest] = entries.keys();
      if (oldest !== undefined) entries.delete(oldest);
    },
    clear: () => entries.clear(),
  };
}
