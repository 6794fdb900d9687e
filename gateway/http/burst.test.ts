import { expect, test } from '@jest/globals';
import { createLogger } from '../../services/platform/log.ts';
import { startTelemetry } from '../../services/platform/telemetry.ts';
import { createInFlight } from './in-flight.ts';

const SIZE = 8;

test('a burst may exceed the slots for a short time; after that, further requests are shed', async () => {
  const clock = { ms: 0 };
  const logger = createLogger({ service: 'test', level: 'fatal', pretty: false });
  const telemetry = await startTelemetry({ service: 'test', metricsPort: 0 });
  const inFlight = createInFlight({ size: SIZE, logger, telemetry, now: () => clock.ms });
  const enter = () => inFlight.enter('createCart', undefined);
  const slots = await Promise.all(Array.from({ length: SIZE + 2 }, enter));
  expect(inFlight.isAnyFull()).toBe(false);
  clock.ms += 1_001;
  expect([inFlight.isAnyFull(), inFlight.shedIfFull('createCart')]).toEqual([true, true]);
  await expect(enter()).rejects.toMatchObject({ error: { status: 503 } });
  // Other operations have their own slots. A slot is free when fewer requests than slots are in flight.
  expect(inFlight.shedIfFull('updateDestination')).toBe(false);
  for (const slot of slots.slice(0, 3)) slot.release();
  expect(inFlight.isAnyFull()).toBe(false);
  // Soon after a shed request there is no burst, because batches of responses free all slots for a moment.
  await enter();
  expect(inFlight.isAnyFull()).toBe(true);
  clock.ms += 1_001;
  for (const slot of slots.slice(3)) slot.release();
  await Promise.all(Array.from({ length: SIZE + 1 }, enter));
  expect(inFlight.isAnyFull()).toBe(false);
  await telemetry.stop();
});
