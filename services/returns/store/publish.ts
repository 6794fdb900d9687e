import { allInOrder } from '../../platform/all-in-order.ts';
import { appendEvents, MAX_SNAPSHOT_BYTES, type NewEvent } from '../../platform/outbox/append.ts';
import { type Queryable, together } from '../../platform/postgres.ts';
import type { EncodedReturn } from './encoded.ts';
import { keepSnapshot, longTextBytes } from './snapshot-store.ts';
import type { Changer, DetailEvent } from './transition.ts';

/** Long texts that an event may copy. Bytes. */
export const COPIED_TEXT_BYTES = 16 * 1024;

function isLeftOut({ bytes, of, isHashed }: EncodedReturn): boolean {
  if (isHashed) return true;
  if (bytes.length <= COPIED_TEXT_BYTES) return false;
  return bytes.length > MAX_SNAPSHOT_BYTES || longTextBytes(of) > COPIED_TEXT_BYTES;
}

/**
 * Appends events about returns, each with its snapshot, and keeps those snapshots that are too large
 * for an event, or would copy more long texts into it than 16 KiB.
 */
export async function publish(
  tx: Queryable,
  by: Changer,
  events: readonly (DetailEvent & { readonly snapshot: EncodedReturn })[],
): Promise<void> {
  const kept = new Set(events.map((event) => event.snapshot).filter(isLeftOut));
  const appended = () =>
    appendEvents(
      tx,
      events.map(
        (event): NewEvent => ({
          trigger: event.trigger,
          shopId: by.shopId,
          returnId: event.returnId,
          revision: event.snapshot.revision,
          key: `${by.shopId}:${event.returnId}`,
          actor: by.actor,
          snapshot: event.snapshot.bytes,
          leavesSnapshotOut: kept.has(event.snapshot),
          ...(event.detail && { detail: event.detail }),
        }),
      ),
    );
  await together(tx, () =>
    allInOrder([...[...kept].map((snapshot) => keepSnapshot(tx, snapshot)), appended()]),
  );
}
