import type { WebhookHealth } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { Time } from '../../parts/time.tsx';
import { numberText } from '../../words.ts';

interface HealthProps {
  readonly health: WebhookHealth | undefined;
}

/** The share of the attempts of the last day that succeeded. */
export function SuccessRate({ health }: HealthProps) {
  const succeeded = health?.succeeded24h ?? 0;
  const all = succeeded + (health?.failed24h ?? 0);
  if (all === 0) return <>–</>;
  return (
    <>
      {percent(succeeded, all)}
      <SecondLine>
        {numberText(succeeded)} of {numberText(all)}
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
export function Waiting({ health }: HealthProps) {
  if (!health || health.waiting === 0) return <>0</>;
  return (
    <>
      {numberText(health.waiting)}
      {health.moreWaiting && '+'}
      <SecondLine>
        oldest <Time at={health.oldestWaitingAt} as="relative" />
      </SecondLine>
    </>
  );
}
