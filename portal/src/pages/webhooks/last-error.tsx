import { useQuery } from '@connectrpc/connect-query';
import { WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { Time } from '../../parts/time.tsx';
import { adviceOf, answerText } from '../deliveries/advice.ts';
import { ResponseExcerpt } from './response-excerpt.tsx';

/** How often it is read. Milliseconds. */
const REFRESH_MS = 30_000;

/** What went wrong with the last attempt of a webhook, and what to check. The list of webhooks does not have it. */
export function LastError({ webhookId }: { readonly webhookId: string }) {
  const { data } = useQuery(
    WebhooksService.method.getWebhook,
    { webhookId },
    { refetchInterval: REFRESH_MS },
  );
  const failure = data?.webhook?.health?.lastFailure;
  if (!failure) return null;
  return (
    <>
      The last attempt, <Time at={failure.startedAt} as="relative" />:{' '}
      <strong>{answerText(failure)}</strong>. {adviceOf(failure)}
      <ResponseExcerpt text={failure.responseExcerpt} />
    </>
  );
}
