import { Alert, Box } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type {
  LastFailure,
  Webhook,
  WebhookHealth,
} from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { Time } from '../../parts/time.tsx';
import { useSession } from '../../session/session.tsx';
import { count } from '../../words.ts';
import { adviceOf, answerText } from '../deliveries/advice.ts';
import { ResponseExcerpt } from './response-excerpt.tsx';
import { AlsoFailing } from './same-address.tsx';

/** Says that the attempts of a webhook fail: with the last error, since when, and what to check. */
export function Failing(o: {
  readonly webhook: Webhook;
  readonly health: WebhookHealth;
  readonly children: ReactNode;
}) {
  const { failures, failingSince, disablesAt, lastFailure } = o.health;
  return (
    <Alert color="red" title="The address does not accept requests">
      {lastFailure && <LastError failure={lastFailure} />}
      <div>
        {count(failures, 'attempt has failed', 'attempts have failed')} since{' '}
        <Time at={failingSince} />.{' '}
        {disablesAt !== undefined && (
          <>
            If all fail until <Time at={disablesAt} />, the service deactivates the webhook.
          </>
        )}
      </div>
      <AlsoFailing webhook={o.webhook} />
      <Box mt="xs">{o.children}</Box>
    </Alert>
  );
}

function LastError({ failure }: { readonly failure: LastFailure }) {
  const mayOpen = useSession().can(WebhooksService.method.getDelivery);
  return (
    <Box mb="xs">
      The last attempt, <Time at={failure.startedAt} as="relative" />:{' '}
      <strong>{answerText(failure)}</strong>. The address is {failure.url}. {adviceOf(failure)}{' '}
      {mayOpen && (
        <Link to="/deliveries/$deliveryId" params={{ deliveryId: failure.deliveryId }}>
          Open this delivery
        </Link>
      )}
      <ResponseExcerpt text={failure.responseExcerpt} />
    </Box>
  );
}
