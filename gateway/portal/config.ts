import { wholeNumber } from '../../services/platform/process/config.ts';

/** The environment variables of the merchant's portal. */
export const portalShape = {
  PORTAL_SESSION_HOURS: wholeNumber(1, 720)
    .default(12)
    .describe('Hours after which a session of the portal ends, even when it is used'),
  PORTAL_SESSION_IDLE_MINUTES: wholeNumber(5, 10_080)
    .default(120)
    .describe('Minutes after which a session of the portal ends when it is not used'),
  PORTAL_CALLS_PER_MINUTE: wholeNumber(1, 1_000_000)
    .default(600)
    .describe(
      "Calls that the portal's page of a signed-in user may make per minute, in all the user's shops together",
    ),
};
