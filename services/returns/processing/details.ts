import type { DetailValue } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { exactNumber, type NumberText, numberText } from '../../contract/exact-json.ts';
import { PROCESS_DETAILS_BYTES_MAX, PROCESS_DETAILS_MAX } from '../../contract/limits.ts';
import { invalidField } from '../../platform/errors.ts';
import { cleanText } from '../../platform/text.ts';
import type { AdditionalDetails, DetailScalar } from '../commerce/provider.ts';

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/**
 * Parses the additional details in a process request: at most 50 keys and 16 KiB. Each value is a text, number, boolean
 * or null.
 *
 * @throws DomainError INVALID_ARGUMENT with the name of the invalid key.
 */
export function parseDetails(details: Readonly<Record<string, DetailValue>>): AdditionalDetails {
  const entries = Object.entries(details);
  if (entries.length > PROCESS_DETAILS_MAX)
    throw invalidField('details', `must have at most ${PROCESS_DETAILS_MAX} keys`);
  const bytes = entries.reduce((sum, [key, value]) => sum + size(key) + size(textOf(value)), 0);
  if (bytes > PROCESS_DETAILS_BYTES_MAX)
    throw invalidField('details', `must have at most ${PROCESS_DETAILS_BYTES_MAX} bytes`);
  return Object.fromEntries(entries.map(([key, value]) => [checkText(key), scalarOf(key, value)]));
}

/** Returns a value as a text for a timeline entry. */
export function detailText(value: DetailScalar): string {
  if (value === null || typeof value !== 'object') return String(value);
  return numberText(value);
}

function scalarOf(key: string, { value }: DetailValue): DetailScalar {
  switch (value.case) {
    case undefined:
      return null;
    case 'text':
      return checkText(value.value);
    case 'truth':
      return value.value;
    case 'number':
      return numberOf(key, value.value);
    default:
      return value satisfies never;
  }
}

function numberOf(key: string, text: string): number | NumberText {
  if (JSON_NUMBER.test(text) && Number.isFinite(Number(text))) return exactNumber(text);
  throw invalidField(`details[${JSON.stringify(key)}]`, 'must be a JSON number');
}

/** Checks that PostgreSQL can store the text: it has no NUL, and no half of a surrogate pair. */
function checkText(text: string): string {
  if (cleanText(text)) return text;
  throw invalidField('details', 'must not contain NUL or a lone surrogate');
}

function textOf({ value }: DetailValue): string {
  return value.case === undefined ? 'null' : String(value.value);
}

function size(text: string): number {
  return Buffer.byteLength(text);
}
