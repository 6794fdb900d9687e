import { eventsTopic } from '../../services/platform/bus/event-bus.ts';
import { type ConsumeOptions, consumeEvents } from '../../services/platform/consumer.ts';
import type { Worker } from '../../services/platform/worker.ts';
import type { MailAdder } from './add-mails.ts';
import { factOfEvent } from './facts.ts';

/** The consumer group of the gateways. */
export const GROUP = 'gateway';

/**
 * Consumes the events of the webhooks service. One transaction stores the ids of the events and the mails about them.
 *
 * @param o.add see {@link MailAdder}.
 */
export function startMailConsumer(
  o: Pick<ConsumeOptions, 'bus' | 'pool' | 'logger' | 'telemetry' | 'retentionDays'> & MailAdder,
): Promise<Worker> {
  return consumeEvents({
    ...o,
    group: GROUP,
    topics: [eventsTopic('webhooks')],
    handle: (tx, events) =>
      o.add(
        tx,
        events.flatMap((event) => factOfEvent(event) ?? []),
      ),
  });
}
