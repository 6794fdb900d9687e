import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Submitter, SubmitterSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { blank, cleanText, fits } from '../../platform/values/text.ts';

// The column `submitter` of a return.

const STOREFRONT_KEY = 'storefront_key';
const APP = 'app:';

/**
 * Returns the submitter for its column. Null when any credential of the shop that sees returns may see the return.
 *
 * @throws DomainError INVALID_ARGUMENT for an app without a valid client id.
 */
export function submitterText(submitter: Submitter | undefined): string | null {
  const by = submitter?.by;
  if (by?.case === 'storefrontKey') return by.value ? STOREFRONT_KEY : null;
  if (by?.case !== 'app') return null;
  if (blank(by.value) || !cleanText(by.value) || !fits(by.value, SHORT_TEXT_MAX)) {
    throw invalidField('submitter.app', `must have 1 to ${SHORT_TEXT_MAX} characters`);
  }
  return `${APP}${by.value}`;
}

/** Reads the column. @see submitterText */
export function submitterOf(text: string): MessageInitShape<typeof SubmitterSchema> {
  return text.startsWith(APP)
    ? { by: { case: 'app', value: text.slice(APP.length) } }
    : { by: { case: 'storefrontKey', value: true } };
}
