import { EventsService } from '../../../proto/gen/rms/events/v1/events_service_pb.ts';
import { cachedWithTimeout } from '../cached-with-timeout.ts';
import { rememberDays } from '../consumer.ts';
import { isUnavailable } from '../errors.ts';
import { createServiceClient } from '../grpc/client.ts';
import type { ServiceRuntime } from '../service.ts';
import { startLoop, type Worker } from '../worker.ts';
import { oldestMissing } from './store.ts';
import { sweep } from './sweep.ts';

const EVERY_MS = 60_000;
/**
 * Least time between the sweeps of two processes. Below the pause of one process, so that its own sweep does not block
 * its next one. Milliseconds.
 */
const APART_MS = 50_000;
/** Pauses after each time that an event was published again: five times in an hour and a half. Milliseconds. */
const PAUSES_MS = [1, 4, 16, 64, 64].map((minutes) => minutes * 60_000);

/**
 * Once a minute, one process of the service compares the events that another service has published with the events that
 * a listener of this service has handled. Missing events were lost by Kafka, and are published again.
 *
 * @param o.group the listener, as in `consumeEvents`.
 * @param o.source the service that publishes.
 * @param o.target its gRPC name.
 */
export function startSweep(
  runtime: ServiceRuntime,
  o: { readonly group: string; readonly source: string; readonly target: string },
): Worker {
  const { backgroundPool: pool, bus, identity, logger, telemetry } = runtime;
  const channel = createServiceClient(EventsService, { target: o.target, identity, telemetry });
  const attributes = { group: o.group };
  const republished = telemetry.meter.createCounter('events_republished_total', {
    description: 'Events that the bus had lost, published again.',
  });
  const age = telemetry.meter.createObservableGauge('events_missing_oldest_age_seconds', {
    description: 'For how long the oldest event has been missing that the bus has lost.',
    unit: 's',
  });
  const ask = cachedWithTimeout(() => oldestMissing(pool, o));
  age.addCallback(async (result) => {
    const seconds = await ask();
    if (seconds !== undefined) result.observe(seconds, attributes);
  });

  const loop = startLoop({
    name: 'sweep of events',
    idleMs: EVERY_MS,
    logger,
    step: async (signal) => {
      try {
        await sweep(
          {
            ...{ group: o.group, source: o.source, pool, bus, logger },
            events: channel.client,
            onPublished: (count) => republished.add(count, attributes),
            everyMs: APART_MS,
            pausesMs: PAUSES_MS,
            keptDays: rememberDays(runtime.retentionDays),
          },
          signal,
        );
      } catch (error) {
        // The publisher is unavailable. Other parts log that, and the next sweep is soon.
        if (!isUnavailable(error)) throw error;
      }
      return 'idle';
    },
  });
  return {
    async stop() {
      await loop.stop();
      channel.close();
    },
  };
}
