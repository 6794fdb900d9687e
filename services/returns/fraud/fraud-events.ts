import type pg from 'pg';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { eventsTopic } from '../../platform/bus/event-bus.ts';
import { consumeEvents } from '../../platform/consumer/consumer.ts';
import type { ServiceRuntime } from '../../platform/process/service.ts';
import type { Worker } from '../../platform/process/worker.ts';
import { addTimeline } from '../store/timeline-store.ts';

/** Listens to the events of the fraud service. Each new report gets an entry in the timeline of its return. */
export function consumeFraudReports(runtime: ServiceRuntime): Promise<Worker> {
  const topics = [eventsTopic('fraud')];
  return consumeEvents({ ...runtime, group: 'returns', topics, handle: noteReports });
}

/**
 * Writes the timeline entries for a batch of events, and marks their returns as reported. Other kinds of events, and
 * returns that do not exist, are skipped.
 */
export async function noteReports(tx: pg.PoolClient, events: readonly Event[]): Promise<void> {
  // Lock the returns in the same order as all other code that changes several returns.
  for (const event of events.toSorted(byReturn)) {
    const { shopId, returnId, actor, detail } = event;
    if (detail.case !== 'fraudReport' || !actor) continue;
    const { rowCount } = await tx.query(
      `update returns set fraud_reported_at = coalesce(fraud_reported_at, now())
        where shop_id = $1 and id = $2`,
      [shopId, returnId],
    );
    if (rowCount === 0) continue;
    const { reportId, category } = detail.value;
    const facts = { report_id: `${reportId}`, ...(category !== '' && { category }) };
    const text = 'A fraud report was created';
    await addTimeline(tx, { shopId, actor }, [
      { returnId, kind: 'fraud_report.created', text, facts },
    ]);
  }
}

function byReturn(a: Event, b: Event): number {
  if (a.shopId !== b.shopId) return a.shopId < b.shopId ? -1 : 1;
  return a.returnId < b.returnId ? -1 : Number(a.returnId > b.returnId);
}
