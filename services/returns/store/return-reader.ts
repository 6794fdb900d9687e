import type pg from 'pg';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { LARGE_BYTES, returnLargerThanAccepted } from './large.ts';
import {
  loadFitting,
  loadListed,
  loadReturn,
  loadReturnsWithin,
  loadReturnWithin,
} from './load.ts';
import { readSnapshot, type SnapshotKey } from './snapshot-store.ts';
import type { StoreDeps } from './transaction.ts';

/**
 * Reads returns for responses. `start.ts` creates one, and the queries get it as an argument. A read of a large return
 * waits for a permit, and has no connection during this wait.
 */
export interface ReturnReader {
  /**
   * Reads whole returns in the order of `ids`, each once. Returns that the shop does not have are left out. Always
   * returns the first return, and stops before the first return that does not fit into a response.
   *
   * @throws ConnectError OVERLOADED when no permit came in time.
   */
  page(shopId: bigint, ids: readonly bigint[]): Promise<readonly Return[]>;

  /**
   * Does the same as {@link ReturnReader.page}, but without notes, descriptions and images of inspections, and without
   * uploads. It needs no permit.
   */
  listed(shopId: bigint, ids: readonly bigint[]): Promise<readonly Return[]>;

  /** Reads whole returns that are small, as many as fit together, in the order of `ids`. The others are left out. */
  small(shopId: bigint, ids: readonly bigint[]): Promise<readonly Return[]>;

  /**
   * Reads one whole return. Undefined when the shop has none with this id.
   *
   * @param o.maxBytes maximum size of line items and uploads, as JSON; 0 for any size.
   * @throws DomainError ANSWER_TOO_LARGE when the return is larger; ConnectError OVERLOADED.
   */
  one(shopId: bigint, id: bigint, o: { readonly maxBytes: number }): Promise<Return | undefined>;

  /**
   * Reads the stored snapshot of a return at a revision, or the current return when there is no snapshot. Undefined
   * when the shop has no such return.
   *
   * @throws ConnectError OVERLOADED.
   */
  atRevision(key: SnapshotKey): Promise<Return | undefined>;
}

export function createReturnReader({ pool, large }: StoreDeps): ReturnReader {
  return {
    async page(shopId, ids) {
      const small = await loadReturnsWithin(pool, shopId, { ids, maxBytes: LARGE_BYTES });
      if (small !== 'large') return small;
      return large.within(shopId, () => loadFitting(pool, shopId, ids, { keepsFirst: true }));
    },
    listed: (shopId, ids) => loadListed(pool, shopId, ids),
    small(shopId, ids) {
      const unknown = ids.filter((id) => !large.isKnown(shopId, id));
      return loadFitting(pool, shopId, unknown, { maxBytes: LARGE_BYTES });
    },
    async one(shopId, id, { maxBytes }) {
      if (!large.isKnown(shopId, id)) {
        const within = Math.min(maxBytes || LARGE_BYTES, LARGE_BYTES);
        const found = await loadReturnWithin(pool, shopId, { id, maxBytes: within });
        if (found !== 'large') return found;
        large.remember(shopId, id);
      }
      if (maxBytes > 0 && maxBytes <= LARGE_BYTES) throw returnLargerThanAccepted();
      const found = await large.within(shopId, () => readLarge(pool, shopId, { id, maxBytes }));
      if (found === 'large') throw returnLargerThanAccepted();
      return found;
    },
    async atRevision(key) {
      const small = await readAt(pool, key, LARGE_BYTES);
      if (small !== 'large') return small;
      const found = await large.within(key.shopId, () => readAt(pool, key));
      return found === 'large' ? undefined : found;
    },
  };
}

function readLarge(
  pool: pg.Pool,
  shopId: bigint,
  { id, maxBytes }: { readonly id: bigint; readonly maxBytes: number },
): Promise<Return | 'large' | undefined> {
  if (maxBytes > 0) return loadReturnWithin(pool, shopId, { id, maxBytes });
  return loadReturn(pool, shopId, id);
}

/**
 * Reads the stored snapshot, or the current return when there is none. Returns `large` when it is larger than
 * `maxBytes`.
 */
async function readAt(
  pool: pg.Pool,
  key: SnapshotKey,
  maxBytes?: number,
): Promise<Return | 'large' | undefined> {
  const stored = await readSnapshot(pool, key, maxBytes);
  if (stored) return stored;
  const { shopId, returnId: id } = key;
  if (maxBytes === undefined) return loadReturn(pool, shopId, id);
  return loadReturnWithin(pool, shopId, { id, maxBytes });
}
