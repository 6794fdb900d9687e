import { ConnectError } from '@connectrpc/connect';
import { isOutage } from '../../services/platform/postgres/outage.ts';
import { isUnavailable } from '../../services/platform/values/errors.ts';
import { printable } from '../../services/platform/values/text.ts';

/** Describes the failure of a command in one line, so that an operator knows what to do. Texts from files may be in it. */
export function explain(error: unknown): string {
  return printable(textOf(error).replaceAll(/\s*\n\s*/g, ' '));
}

function textOf(error: unknown): string {
  if (isOutage(error))
    return `the database does not respond${reasonOf(error)}; is the system running?`;
  if (isUnavailable(error)) return 'a service does not respond; is the system running?';
  if (error instanceof ConnectError) return error.rawMessage;
  return error instanceof Error ? error.message : String(error);
}

/**
 * Returns the text of an error in brackets. A rejected password or certificate must be visible, because starting the
 * system again does not help.
 */
function reasonOf(error: unknown): string {
  return error instanceof Error && error.message ? ` (${error.message})` : '';
}
