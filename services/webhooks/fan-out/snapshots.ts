import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { type Event, EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ReceivedRecord } from '../../platform/bus/event-bus.ts';

/** Reads a return as it was at a revision; undefined when returns no longer has it. */
export type ReadSnapshot = (o: {
  shopId: bigint;
  returnId: bigint;
  revision: bigint;
}) => Promise<Return | undefined>;

/**
 * Puts back the snapshots that were left out of events for their size.
 *
 * One that is gone stays out, and its event is parked by the consumer if somebody waits for it.
 *
 * @throws what the read throws when returns is away: the records are then given again.
 */
export async function fillSnapshots(
  records: readonly ReceivedRecord[],
  read: ReadSnapshot,
): Promise<readonly ReceivedRecord[]> {
  const filled: ReceivedRecord[] = [];
  for (const record of records) {
    const event = decode(record);
    const snapshot = event?.snapshotOmitted ? await read(event) : undefined;
    if (!event || !snapshot) filled.push(record);
    else {
      const whole = { ...event, snapshot, snapshotOmitted: false };
      filled.push({ ...record, value: toBinary(EventSchema, whole) });
    }
  }
  return filled;
}

/** undefined for what does not parse: the consumer deals with it. */
function decode(record: ReceivedRecord): Event | undefined {
  try {
    return fromBinary(EventSchema, record.value);
  } catch {
    return undefined;
  }
}

/** NOT_FOUND is an answer here; everything else propagates. */
export async function unlessGone<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof ConnectError && error.code === Code.NotFound) return undefined;
    throw error;
  }
}
