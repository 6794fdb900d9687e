import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Telemetry } from '../../services/platform/telemetry.ts';
import { silentLogger, testTelemetry } from '../../test/kit/services/telemetry.ts';
import { createInFlight } from './in-flight.ts';

let telemetry: Telemetry;
beforeAll(async () => {
  telemetry = await testTelemetry();
});
afterAll(() => telemetry.stop());

test.each(['before', 'during'])(
  'a request that ends %s its wait for the client takes no slot after it',
  async (when) => {
    let nowMs = 0;
    const logger = silentLogger();
    const inFlight = createInFlight({ size: 1, logger, telemetry, now: () => nowMs });
    const slot = await inFlight.enter('signIn', undefined);
    const waiting = Promise.withResolvers<void>();
    if (when === 'before') slot.release();
    const waited = slot.during(() => waiting.promise);
    if (when === 'during') slot.release();
    waiting.resolve();
    await waited;
    // Longer than a burst may last.
    nowMs += 60_000;
    expect(inFlight.isAnyFull()).toBe(false);
  },
);
