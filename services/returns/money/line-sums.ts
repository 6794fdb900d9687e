import { invalidField } from '../../platform/errors.ts';
import { snakeCase } from '../../platform/text.ts';
import { type Both, bothOf } from './money.ts';
import { LINE_AMOUNTS, type LineSums } from './totals.ts';

/**
 * The amounts of one line item in both currencies.
 *
 * @param at path of the line item in the request, such as `lines[0]`.
 * @param read reads one amount by its name; the second argument is the path of the field.
 * @throws DomainError INVALID_ARGUMENT when the tax on shipping exceeds the shipping, which includes it.
 */
export function lineSumsFrom(
  at: string,
  read: (name: keyof LineSums, field: string) => Both<bigint>,
): Both<LineSums> {
  const sums = bothOf(LINE_AMOUNTS, (name) => read(name, `${at}.${snakeCase(name)}`));
  if ([sums.shop, sums.presentment].some((one) => one.refundShippingTax > one.refundShipping)) {
    throw invalidField(
      `${at}.refund_shipping_tax`,
      'must not exceed refund_shipping, which includes it',
    );
  }
  return sums;
}
