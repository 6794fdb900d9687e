import type { Meter } from '@opentelemetry/api';
import type { EventBus } from './event-bus.ts';

/** For this time, scrapes of several collectors share one request to the brokers. Milliseconds. */
const CACHE_MS = 5_000;

/** Adds a metric that is 1 while the event bus answers and 0 otherwise, checked at each scrape. */
export function observeBus(meter: Meter, bus: EventBus): void {
  let check: Promise<boolean> | undefined;
  let until = 0;
  const isUp = (): Promise<boolean> => {
    if (check === undefined || performance.now() >= until) {
      until = performance.now() + CACHE_MS;
      check = bus.health().then(
        () => true,
        () => false,
      );
    }
    return check;
  };
  meter
    .createObservableGauge('event_bus_up', {
      description: 'Whether the event bus answers. While it does not, events wait in the outbox.',
    })
    .addCallback(async (result) => result.observe((await isUp()) ? 1 : 0));
}
