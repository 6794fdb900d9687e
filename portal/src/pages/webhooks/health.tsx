import type { Subscription } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { Time } from '../../parts/time/time.tsx';
import { numberText } from '../../words.ts';

/** The share of the attempts of the last day that succeeded. */
export function SuccessRate({ of: { health } }: { readonly of: Subscription }) {
  const { delivered = 0, counted = 0 } = health ?? {};
  if (counted === 0) return <>–</>;
  return (
    <>
      {percent(delivered, counted)}
      <SecondLine>
        {numberText(delivered)} of {numberText(counted)}
      </SecondLine>
    </>
  );
}

/** Never rounds up to 100 %: one failure must stay visible. */
function percent(part: number, all: number): string {
  const tenths = Math.floor((part / all) * 1_000) / 10;
  return `${tenths} %`;
}

/** How many deliveries wait, and since when the oldest does. */
export function Waiting({ of: { backlog } }: { readonly of: Subscription }) {
  if (!backlog || backlog.count === 0) return <>0</>;
  return (
    <>
      {numberText(backlog.count)}
      {backlog.more && '+'}
      <SecondLine>
        oldest <Time at={backlog.oldestAt} as="relative" />
      </SecondLine>
    </>
  );
}
