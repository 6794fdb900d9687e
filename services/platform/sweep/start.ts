import { EventsService } from '../../../proto/gen/rms/events/v1/events_service_pb.ts';
import { rememberDays } from '../consumer.ts';
import { isUnavailable } from '../errors.ts';
import { createServiceClient } from '../grpc/client.ts';
import type { ServiceRuntime } from '../service.ts';
import { sharedWithTimeout } from '../shared-with-timeout.ts';
import { startLoop, type Worker } from '../worker.ts';
import { oldestMissing } from './store.ts';
import { sweep } from './sweep.ts';

const EVERY_MS = 60_000;
/**
 * Minimum time between two sweeps, over all processes. It is below `EVERY_MS`, so that a process does not skip its own
 * next sweep. Milliseconds.
 */
const MIN_INTERVAL_MS = 50_000;
/**
 * The pauses after each time that an event is published again: five times within an hour and a half. The last pause ends
 * with nothing, because there is no sixth time. Milliseconds.
 */
const PAUSES_MS = [1, 4, 16, 64, 64].map((minutes) => minutes * 60_000);

/**
 * Starts the sweep. Once a minute, one process of the service compares the events that another service has published
 * with those that a listener of this service has handled. Kafka has lost the events that are missing, so they are
 * published again.
 *
 * @param o.group the listener, as in `consumeEvents`.
 * @param o.source the service that publishes.
 * @param o.target gRPC name of the service that publishes.
 */
export function startSweep(
  runtime: Pick<
    ServiceRuntime,
    'backgroundPool' | 'bus' | 'identity' | 'logger' | 'telemetry' | 'retentionDays'
  >,
  o: { readonly group: string; readonly source: string; readonly target: string },
): Worker {
  const { backgroundPool: pool, bus, identity, logger, telemetry } = runtime;
  const channel = createServiceClient(EventsService, { target: o.target, identity, telemetry });
  const attributes = { group: o.group };
  const republished = telemetry.meter.createCounter('events_republished_total', {
    description: 'Events that were published again because the bus had lost them.',
  });
  const age = telemetry.meter.createObservableGauge('events_missing_oldest_age_seconds', {
    description:
      'Time since the sweep found the oldest event that the bus lost and no listener has handled yet.',
    unit: 's',
  });
  const readAge = sharedWithTimeout(() => oldestMissing(pool, o));
  age.addCallback(async (result) => {
    const seconds = await readAge();
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
            group: o.group,
            source: o.source,
            pool,
            bus,
            logger,
            events: channel.client,
            onPublished: (count) => republished.add(count, attributes),
            everyMs: MIN_INTERVAL_MS,
            pausesMs: PAUSES_MS,
            keptDays: rememberDays(runtime.retentionDays),
          },
          signal,
        );
      } catch (error) {
        // The publisher is unavailable. Other code logs this. The next sweep starts soon.
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
