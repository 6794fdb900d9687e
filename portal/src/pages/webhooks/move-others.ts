import { callUnaryMethod, useTransport } from '@connectrpc/connect-query';
import { useQueryClient } from '@tanstack/react-query';
import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { explain } from '../../api/errors.ts';
import { newActionKey } from '../../api/use-write.ts';
import { notifyDone, notifyFailure, notifyProblem } from '../../parts/notify.ts';
import { webhooksText } from './name.ts';

type Transport = ReturnType<typeof useTransport>;

/**
 * Gives several webhooks another address, one after the other, and sends what waits to it at once. Each is a change of
 * its own, so some may fail: the message names them, and those that changed can be taken back.
 */
export function useMoveOthers(): (webhooks: readonly Webhook[], url: string) => Promise<void> {
  const cache = useQueryClient();
  const transport = useTransport();
  return async (webhooks, url) => {
    const moved: Webhook[] = [];
    for (const webhook of webhooks) {
      try {
        await move(transport, webhook, url);
        moved.push(webhook);
      } catch (failure) {
        notifyProblem(
          `${webhooksText([webhook])} still has its former address`,
          `${explain(failure).text} Edit webhook ${webhook.id} to try again.`,
        );
      }
    }
    await cache.invalidateQueries();
    if (moved.length === 0) return;
    const takeBack = async () => {
      try {
        for (const webhook of moved) await move(transport, webhook, webhook.url);
        notifyDone('They have their former address again.');
      } catch (failure) {
        notifyProblem('Not all webhooks have their former address again', explain(failure).text);
      }
      await cache.invalidateQueries();
    };
    const have = moved.length === 1 ? 'has' : 'have';
    notifyDone(`${webhooksText(moved)} ${have} the new address, too.`, () => void takeBack());
  };
}

/** What waits would otherwise wait for its next attempt, which may be hours later. */
async function move(transport: Transport, { id, status, health }: Webhook, url: string) {
  const { updateWebhook, retryDeliveries } = WebhooksService.method;
  const input = { webhookId: id, idempotencyKey: newActionKey() };
  await callUnaryMethod(transport, updateWebhook, { ...input, url });
  if (status !== 'active' || !health?.waiting) return;
  const retry = { ...input, idempotencyKey: newActionKey() };
  await callUnaryMethod(transport, retryDeliveries, retry).catch(notifyFailure);
}
