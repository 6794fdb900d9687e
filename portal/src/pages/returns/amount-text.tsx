import type { Amount } from '../../../../proto/gen/rms/common/v1/money_pb.ts';
import {
  type LineAmounts,
  type LineItem,
  type Return,
  ReturnState,
} from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { moneyText, negated } from '../../words.ts';

type InBoth = Pick<Amount, 'shop' | 'presentment'>;

/** An amount of a line item in both currencies. */
export function lineAmount(
  { amounts, presentmentAmounts }: LineItem,
  name: keyof Omit<LineAmounts, '$typeName' | '$unknown'>,
): InBoth {
  return { shop: amounts?.[name] ?? '', presentment: presentmentAmounts?.[name] ?? '' };
}

/** Whether it is nothing in both currencies. */
export function isZero({ shop, presentment }: InBoth): boolean {
  return Number(shop) === 0 && Number(presentment) === 0;
}

/** Whether the return has ended without paying what its amounts say. */
export function isUnpaid({ state }: Return): boolean {
  return state === ReturnState.CANCELLED || state === ReturnState.EXPIRED;
}

export function hasOtherCurrency({ currency, presentmentCurrency }: Return): boolean {
  return presentmentCurrency !== '' && presentmentCurrency !== currency;
}

/** An amount in the shop's currency, and in the shopper's if that is another. */
export function AmountText({
  amount,
  of: about,
  minus = false,
}: {
  readonly amount: InBoth | undefined;
  readonly of: Return;
  /** Whether it is deducted from what the shopper gets. */
  readonly minus?: boolean;
}) {
  if (!amount) return <>–</>;
  const text = (value: string, currency: string) =>
    moneyText(minus ? negated(value) : value, currency);
  return (
    <span style={{ whiteSpace: 'nowrap' }}>
      {text(amount.shop, about.currency)}
      {hasOtherCurrency(about) && (
        <>
          <br />
          <span style={{ color: 'var(--mantine-color-dimmed)' }}>
            {text(amount.presentment, about.presentmentCurrency)}
          </span>
        </>
      )}
    </span>
  );
}
