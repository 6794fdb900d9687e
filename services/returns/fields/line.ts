import { z } from 'zod';
import { LineOutcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { WEBHOOK_URL_MAX } from '../../contract/limits.ts';
import { lineOutcomeText } from '../store/texts.ts';
import {
  countryField,
  enumField,
  fieldTable,
  idField,
  internal,
  numberField,
  optionalIdField,
  quantity,
  textField,
} from './field.ts';

/** The fields of a submitted line item that are in the details, except amounts. How to add one: CONTRIBUTING.md. */
export const LINE_FIELDS = fieldTable({
  providerLineItemId: idField,
  providerLineItemExternalId: textField(),
  productId: optionalIdField,
  variantId: optionalIdField,
  sku: textField(),
  lineItemTitle: textField(),
  variantTitle: textField(),
  title: textField(),
  image: textField(WEBHOOK_URL_MAX),
  quantity: numberField(quantity),
  exchangeVariant: textField(),
  barcode: textField(),
  providerRestockLocationId: textField(),
  reason: textField(),
  parentReason: textField(),
  outcome: enumField(
    z.enum(LineOutcome, 'is unknown').transform((value) => value || LineOutcome.DEFAULT),
    lineOutcomeText,
  ),
  hsCode: internal(textField()),
  countryOfOrigin: internal(countryField),
  weightG: internal(numberField(z.int().nonnegative('must not be negative'))),
});
