import type { Logger } from '../../services/platform/log.ts';
import { isOutage } from '../../services/platform/outage.ts';
import { type Answer, page, unavailable } from './pages/answer.ts';
import { messagePage } from './pages/pages.ts';
import { IdentityProviderAway } from './upstream.ts';

/** Whether the failure is the database's passing trouble, as itself or in the words of OAuth. */
export function isAway(error: unknown): boolean {
  if (isOutage(error)) return true;
  return error instanceof Error && error.message === 'temporarily_unavailable';
}

/** Something failed when there was no way back: what was given for a sign-in is spent. */
export class SignInLost extends Error {
  override readonly name = 'SignInLost';
}

/** Instead of "Try again" where trying again would come to nothing. */
export const BEGIN_AGAIN = 'Go back to your app and connect again in a moment.';

/** The page for a failure in the middle of a sign-in; the cause goes to the log. */
export function failureAnswer(error: unknown, logger: Logger): Answer {
  logger.error({ err: error }, 'sign-in failed');
  if (error instanceof SignInLost) return unavailable(BEGIN_AGAIN);
  if (error instanceof IdentityProviderAway) {
    return unavailable('The page where you sign in does not answer. Try again in a moment.');
  }
  if (isAway(error)) return unavailable('Try again in a moment.');
  const text = 'It is not your fault. Go back to your app and connect again.';
  return page(messagePage({ title: 'Something went wrong', text }), { status: 500 });
}
