import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { ReturnTrigger } from '../../contract/vocabulary.ts';
import { appendEvents, MAX_SNAPSHOT_BYTES, type NewEvent } from '../../platform/outbox/append.ts';
import { allInOrder } from '../../platform/postgres/all-in-order.ts';
import { type Queryable, together } from '../../platform/postgres/postgres.ts';
import type { EncodedReturn } from './encoded.ts';
import { insertSnapshot, longTextBytes } from './snapshot-store.ts';

/** An event about a return, with fields of its own, such as a label. */
export interface DetailEvent {
  /** Webhooks deliver all of these triggers except the last one. */
  readonly trigger: ReturnTrigger | 'customer.redacted';
  readonly returnId: bigint;
  readonly detail?: Event['detail'];
}

/** Maximum size of the long texts in the snapshot of an event. Bytes. */
export const COPIED_TEXT_BYTES = 16 * 1024;

function isOmitted({ bytes, of, isHashed }: EncodedReturn): boolean {
  if (isHashed) return true;
  if (bytes.length <= COPIED_TEXT_BYTES) return false;
  return bytes.length > MAX_SNAPSHOT_BYTES || longTextBytes(of) > COPIED_TEXT_BYTES;
}

/**
 * Appends events about returns to the outbox, each with its snapshot. A snapshot that is too large for an event, or has
 * more than 16 KiB of long texts, is stored in the table `snapshots` instead.
 */
export async function appendReturnEvents(
  tx: Queryable,
  by: { readonly shopId: bigint; readonly actor: Actor },
  events: readonly (DetailEvent & { readonly snapshot: EncodedReturn })[],
): Promise<void> {
  const omitted = new Set(events.map((event) => event.snapshot).filter(isOmitted));
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
          leavesSnapshotOut: omitted.has(event.snapshot),
          ...(event.detail && { detail: event.detail }),
        }),
      ),
    );
  await together(tx, () =>
    allInOrder([...[...omitted].map((snapshot) => insertSnapshot(tx, snapshot)), appended()]),
  );
}
