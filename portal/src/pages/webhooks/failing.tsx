import { useQuery } from '@connectrpc/connect-query';
import { Alert, Box, Code } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { Fragment, type ReactNode } from 'react';
import {
  type LastFailure,
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';
import { count } from '../../words.ts';
import { adviceOf, answerText } from '../deliveries/advice.ts';
import { useSameAddress } from './use-webhooks.ts';
import { isFailing, webhookText } from './webhook.ts';

/** Says that the attempts of a webhook fail: with the last error, since when, and what to check. */
export function Failing(o: { readonly webhook: Subscription; readonly children: ReactNode }) {
  const { failures, failingSince, disablesAt, lastFailure } = o.webhook;
  return (
    <Alert color="red" title="The address does not accept requests">
      {lastFailure && (
        <Box mb="xs">
          <LastAttempt failure={lastFailure} withAddress />
        </Box>
      )}
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

/** How often it is read. Milliseconds. */
const REFRESH_MS = 30_000;

/** What went wrong with the last attempt of a webhook, and what to check. The list of webhooks does not have it. */
export function LastError({ webhookId }: { readonly webhookId: bigint }) {
  const { data } = useQuery(
    WebhooksService.method.getSubscription,
    { subscriptionId: webhookId, includeBacklog: true },
    { refetchInterval: REFRESH_MS },
  );
  const failure = data?.subscription?.lastFailure;
  return failure ? <LastAttempt failure={failure} /> : null;
}

function LastAttempt(o: { readonly failure: LastFailure; readonly withAddress?: boolean }) {
  const { failure } = o;
  const mayOpen = useSession().can(WebhooksService.method.getDelivery);
  return (
    <>
      The last attempt, <Time at={failure.startedAt} as="relative" />:{' '}
      <strong>{answerText(failure)}</strong>. {o.withAddress && `The address is ${failure.url}. `}
      {adviceOf(failure)}{' '}
      {o.withAddress && mayOpen && (
        <Link to="/deliveries/$deliveryId" params={{ deliveryId: failure.deliveryId }}>
          Open this delivery
        </Link>
      )}
      <ResponseExcerpt text={failure.responseExcerpt} />
    </>
  );
}

/** The beginning of what the receiver answered: often it says itself what to change. It may have any characters. */
export function ResponseExcerpt({ text }: { readonly text: string }) {
  if (text === '') return null;
  return (
    <div>
      It answered: <Code style={{ overflowWrap: 'anywhere' }}>{text}</Code>
    </div>
  );
}

/** Says that other webhooks fail for the same reason, with links to them. */
function AlsoFailing({ webhook }: { readonly webhook: Subscription }) {
  const failing = useSameAddress(webhook).filter(isFailing);
  if (failing.length === 0) return null;
  return (
    <div>
      {count(
        failing.length,
        'other webhook uses this address and fails as well',
        'other webhooks use this address and fail as well',
      )}
      :{' '}
      {failing.map((one, index) => (
        <Fragment key={String(one.id)}>
          {index > 0 && ', '}
          <Link to="/webhooks/$webhookId" params={{ webhookId: String(one.id) }}>
            {webhookText(one, { event: one.trigger })}
          </Link>
        </Fragment>
      ))}
      .
    </div>
  );
}
