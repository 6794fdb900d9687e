import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { explain, NoAnswer, throwUnlessGone } from '../../api/errors.ts';
import { useWrite } from '../../api/use-write.ts';
import { notifyDone, notifyFailure, notifyProblem } from '../../parts/notify.ts';
import { webhooksText } from './name.ts';

/**
 * Gives several webhooks another address, one after the other, and sends what waits to it at once. Each is a change of
 * its own, so some may fail: the message names them, and those that changed can be taken back.
 */
export function useMoveOthers(): (webhooks: readonly Webhook[], url: string) => Promise<void> {
  const { updateWebhook, retryDeliveries } = WebhooksService.method;
  const update = useWrite(updateWebhook, {});
  const retry = useWrite(retryDeliveries, {});
  // What waits would otherwise wait for its next attempt, which may be hours later.
  const move = async ({ id: webhookId, status, health }: Webhook, url: string) => {
    await update.send({ webhookId, url });
    if (status !== 'active' || !health?.waiting) return;
    await retry.send({ webhookId }).catch(notifyFailure);
  };
  return async (webhooks, url) => {
    const moved: Webhook[] = [];
    for (const webhook of webhooks) {
      try {
        await move(webhook, url);
        moved.push(webhook);
      } catch (failure) {
        const { title, text } = explain(failure);
        notifyProblem(
          failure instanceof NoAnswer
            ? `${webhooksText([webhook])}: ${title}`
            : `${webhooksText([webhook])} still has its former address`,
          `${text} Edit webhook ${webhook.id} to try again.`,
        );
      }
    }
    if (moved.length === 0) return;
    const takeBack = async () => {
      // A webhook that was deleted after its move has no address to take back.
      for (const webhook of moved) await move(webhook, webhook.url).catch(throwUnlessGone);
      notifyDone('They have their former address again.');
    };
    const have = moved.length === 1 ? 'has' : 'have';
    notifyDone(`${webhooksText(moved)} ${have} the new address, too.`, takeBack);
  };
}
