import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { notifyDone } from '../../parts/notify.ts';
import { count } from '../../words.ts';

/** Sends the waiting deliveries of a webhook now, and not at their next attempt. */
export function useRetryWaiting({ id: webhookId, health }: Webhook) {
  const { run, isPending } = useWrite(WebhooksService.method.retryDeliveries, {
    onSuccess: (sent) =>
      notifyDone(
        health?.pausedSince
          ? 'One delivery tries the address now. The others follow as soon as it succeeds.'
          : doneText(sent),
      ),
  });
  return { isPending, run: () => run({ webhookId }) };
}

function doneText({ count: sent, more }: { readonly count: number; readonly more: boolean }) {
  if (sent === 0) return 'Nothing waits for a later attempt.';
  const text = `${count(sent, 'delivery is', 'deliveries are')} sent now.`;
  return more ? `${text} More wait: send again.` : text;
}
