import type { Meter } from '@opentelemetry/api';
import type { EventBus } from './event-bus.ts';

/** Scrapes by several collectors within this time cause one request to the brokers. */
const CACHE_MS = 5_000;

/** The metric of whether the event bus answers: 1 or 0, checked at each scrape. */
export function observeBus(meter: Meter, bus: EventBus): void {
  let answer: Promise<boolean> | undefined;
  let until = 0;
  const isUp = (): Promise<boolean> => {
    if (answer === undefined || performance.now() >= until) {
      until = performance.now() + CACHE_MS;
      answer = bus.health().then(
        () => true,
        () => false,
      );
    }
    return answer;
  };
  meter
    .createObservableGauge('event_bus_up', {
      description: 'Whether the event bus answers. While it does not, events wait in the outbox.',
    })
    .addCallback(async (result) => result.observe((await isUp()) ? 1 : 0));
}
