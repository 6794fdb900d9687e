import { z } from 'zod';
import { Outcome, ReturnMethod, ReturnType } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { WEBHOOK_URL_MAX } from '../../contract/limits.ts';
import { methodText, outcomeText, typeText } from '../store/texts.ts';
import { enumField, fieldTable, nullableIdField, textField } from './field.ts';

/**
 * The fields of a submitted return that are in the details, except amounts, order and customer. How to add one:
 * CONTRIBUTING.md.
 */
export const RETURN_FIELDS = fieldTable({
  type: enumField(
    z.enum(ReturnType, 'is unknown').transform((value) => value || ReturnType.STANDARD),
    typeText,
  ),
  outcome: enumField(
    z.enum(Outcome, 'is unknown').refine((value) => value !== Outcome.UNSPECIFIED, 'is required'),
    outcomeText,
  ),
  returnMethod: enumField(
    z.enum(ReturnMethod, 'is unknown').transform((value) => value || ReturnMethod.MAIL),
    methodText,
  ),
  destinationId: nullableIdField,
  statusPageUrl: textField(WEBHOOK_URL_MAX),
  packageReference: textField(),
});
