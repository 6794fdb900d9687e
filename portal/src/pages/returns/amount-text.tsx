import type { Amount } from '../../../../proto/gen/rms/common/v1/money_pb.ts';
import type { Return } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { moneyText, negated } from '../../words.ts';

export interface Currencies {
  /** The shop's. */
  readonly currency: string;
  /** The one that the shopper paid in. */
  readonly presentmentCurrency: string;
}

/** Whether it is nothing in both currencies. */
export function isZero(amount: Amount | undefined): boolean {
  return Number(amount?.shop ?? '') === 0 && Number(amount?.presentment ?? '') === 0;
}

/** Whether the return has ended without paying what its amounts say. */
export function isUnpaid(about: Return): boolean {
  return about.summary?.state === 'cancelled' || about.summary?.state === 'expired';
}

/** An amount in the shop's currency, and in the shopper's if that is another. */
export function AmountText({
  amount,
  of,
  minus = false,
}: {
  readonly amount: Amount | undefined;
  readonly of: Currencies;
  /** Whether it is deducted from what the shopper gets. */
  readonly minus?: boolean;
}) {
  if (!amount) return <>–</>;
  const signed = (value: string) => (minus ? negated(value) : value);
  const isOther = of.presentmentCurrency !== '' && of.presentmentCurrency !== of.currency;
  return (
    <span style={{ whiteSpace: 'nowrap' }}>
      {moneyText(signed(amount.shop), of.currency)}
      {isOther && (
        <>
          <br />
          <span style={{ color: 'var(--mantine-color-dimmed)' }}>
            {moneyText(signed(amount.presentment), of.presentmentCurrency)}
          </span>
        </>
      )}
    </span>
  );
}
