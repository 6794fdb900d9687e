import type { Amount } from '../../../../proto/gen/rms/common/v1/money_pb.ts';
import { moneyText } from '../../words.ts';

export interface Currencies {
  /** The shop's. */
  readonly currency: string;
  /** The one that the shopper paid in. */
  readonly presentmentCurrency: string;
}

/** An amount in the shop's currency, and in the shopper's if that is another. */
export function AmountText({
  amount,
  of,
}: {
  readonly amount: Amount | undefined;
  readonly of: Currencies;
}) {
  if (!amount) return <>–</>;
  const isOther = of.presentmentCurrency !== '' && of.presentmentCurrency !== of.currency;
  return (
    <span style={{ whiteSpace: 'nowrap' }}>
      {moneyText(amount.shop, of.currency)}
      {isOther && (
        <>
          <br />
          <span style={{ color: 'var(--mantine-color-dimmed)' }}>
            {moneyText(amount.presentment, of.presentmentCurrency)}
          </span>
        </>
      )}
    </span>
  );
}
