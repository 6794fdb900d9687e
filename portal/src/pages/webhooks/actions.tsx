import { Button } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import {
  type Subscription,
  SubscriptionStatus,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { ActionMenu } from '../../parts/action-menu.tsx';
import { confirm } from '../../parts/dialog/confirm.ts';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { useSession } from '../../session/session.tsx';
import { GIVEN_UP } from '../deliveries/delivery.ts';
import { isActive, webhookText } from './webhook.ts';

const ReplayDialog = lazyPart(async () => (await import('../replays/start.tsx')).ReplayDialog);
const BackfillDialog = lazyPart(async () => (await import('../replays/start.tsx')).BackfillDialog);
const SendTest = lazyPart(async () => (await import('./test.tsx')).SendTest);
const EditWebhook = lazyPart(async () => (await import('./edit.tsx')).EditWebhook);

const DIALOGS = { edit: EditWebhook, test: SendTest, backfill: BackfillDialog, replay: ReplayOne };

/**
 * What the user may do with a webhook.
 *
 * @param o.onTested called with the id of the delivery of a test event.
 */
export function WebhookActions(o: {
  readonly webhook: Subscription;
  readonly onTested: (deliveryId: string) => void;
}) {
  const { webhook, onTested } = o;
  const { can } = useSession();
  const [dialog, setDialog] = useState<keyof typeof DIALOGS>();
  const { updateSubscription, deleteSubscription, sendTest, startReplay, startBackfill } =
    WebhooksService.method;
  const status = useStatusSwitch(webhook);
  const remove = useRemove(webhook);
  const open = (name: keyof typeof DIALOGS) => () => setDialog(name);
  const Dialog = dialog && DIALOGS[dialog];
  const isOn = isActive(webhook);
  if (!can(updateSubscription)) return null;
  return (
    <>
      {can(sendTest) && isOn && (
        <Button variant="default" onClick={open('test')}>
          Send a test event
        </Button>
      )}
      <Button onClick={open('edit')}>Edit</Button>
      <ActionMenu
        label="More"
        name="More actions"
        actions={[
          ...(can(startReplay)
            ? [{ key: 'replay', title: 'Send failed deliveries again', run: open('replay') }]
            : []),
          ...(can(startBackfill) && isOn
            ? [{ key: 'backfill', title: 'Send stored events (backfill)', run: open('backfill') }]
            : []),
          { key: 'status', title: isOn ? 'Deactivate' : 'Activate', run: status, section: '' },
          ...(can(deleteSubscription)
            ? [{ key: 'delete', title: 'Delete', run: remove, danger: true }]
            : []),
        ]}
      />
      {Dialog && (
        <Dialog webhook={webhook} onClose={() => setDialog(undefined)} onTested={onTested} />
      )}
    </>
  );
}

interface DialogProps {
  readonly webhook: Subscription;
  readonly onClose: () => void;
}

function ReplayOne({ webhook, onClose }: DialogProps) {
  return (
    <ReplayDialog filter={{ subscriptionId: webhook.id, states: GIVEN_UP }} onClose={onClose} />
  );
}

/** Deactivates an active webhook after a question, and activates an inactive one. */
function useStatusSwitch(webhook: Subscription): () => void {
  const isOn = isActive(webhook);
  const { run, send } = useWrite(WebhooksService.method.updateSubscription, {
    done: `${webhookText(webhook, { word: 'Webhook' })} is ${isOn ? 'inactive' : 'active'}.`,
  });
  const statusChange = (status: SubscriptionStatus) => ({ subscriptionId: webhook.id, status });
  const { ACTIVE, INACTIVE } = SubscriptionStatus;
  const [now, next] = isOn ? [ACTIVE, INACTIVE] : [INACTIVE, ACTIVE];
  const { url, topic, trigger, description } = webhook;
  const expected = { url, topic, trigger, description, status: next };
  const back = { ...statusChange(now), expected };
  if (!isOn) return () => run(statusChange(next), back);
  return () =>
    confirm({
      title: 'Deactivate this webhook?',
      text: 'New events are not sent. Deliveries that wait now are held for 30 days, and go on when you activate it again.',
      action: 'Deactivate the webhook',
      onConfirm: () => send(statusChange(next), back),
    });
}

function useRemove(webhook: Subscription): () => void {
  const navigate = useNavigate();
  const { send } = useWrite(WebhooksService.method.deleteSubscription, {
    done: `${webhookText(webhook, { word: 'Webhook' })} is deleted.`,
    onSuccess: () => void navigate({ to: '/webhooks' }),
  });
  return () =>
    confirm({
      title: 'Delete this webhook?',
      text: `${webhook.description && `${webhook.description}: `}${webhook.url} gets no more events, and deliveries that wait are dropped. The log of past deliveries is kept. This cannot be undone.`,
      action: 'Delete the webhook',
      danger: true,
      onConfirm: () => send({ subscriptionId: webhook.id }),
    });
}
