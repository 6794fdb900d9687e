import { isOutage } from '../../../services/platform/postgres/outage.ts';
import type { Logger } from '../../../services/platform/telemetry/log.ts';
import { messagePage } from '../pages/pages.ts';
import { type PageResponse, page, unavailable } from '../pages/response.ts';
import { IdentityProviderUnavailable } from './upstream.ts';

/** Whether the error is a database outage, or the OAuth error that `adapter.ts` made from one. */
export function isUnavailable(error: unknown): boolean {
  if (isOutage(error)) return true;
  return error instanceof Error && error.message === 'temporarily_unavailable';
}

/** A step failed after its one-time record had been removed. So the user must start the sign-in again. */
export class SignInLost extends Error {
  override readonly name = 'SignInLost';
}

/** Text in place of "Try again", for failures after which a retry cannot succeed. */
export const CONNECT_AGAIN = 'Go back to your app and connect again in a moment.';

/**
 * Logs an error of a sign-in and returns its page.
 *
 * @param again what the page asks the user to do after an error on our side.
 */
export function failurePage(
  error: unknown,
  logger: Logger,
  again = 'Go back to your app and connect again.',
): PageResponse {
  logger.error({ err: error }, 'sign-in failed');
  if (error instanceof SignInLost) return unavailable(CONNECT_AGAIN);
  if (error instanceof IdentityProviderUnavailable) {
    return unavailable('The page where you sign in does not answer. Try again in a moment.');
  }
  if (isUnavailable(error)) return unavailable('Try again in a moment.');
  const text = `The error is on our side. ${again}`;
  return page(messagePage({ title: 'Something went wrong', text }), { status: 500 });
}
