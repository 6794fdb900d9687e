import { Alert, Checkbox, Text } from '@mantine/core';
import { useState } from 'react';
import {
  type Backlog,
  type LastFailure,
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { explain, NoAnswer, throwUnlessGone, wasSent } from '../../api/errors.ts';
import { useWrite } from '../../api/use-write.ts';
import { FormModal } from '../../parts/dialog/form-modal.tsx';
import { notifyDone, notifyFailure, notifyProblem } from '../../parts/notify.ts';
import { count } from '../../words.ts';
import { answerText } from '../deliveries/advice.ts';
import { ResponseExcerpt } from './failing.tsx';
import { DescriptionField, EqualToChosen, PairFields, UrlField } from './fields.tsx';
import { useSameAddress } from './use-webhooks.ts';
import { isActive, isFailing, webhooksText, webhookText } from './webhook.ts';

type Content = Pick<Subscription, 'id' | 'url' | 'description' | 'topic' | 'trigger'>;

/** What is done after the save, besides the change itself. */
interface Saved {
  readonly text: string;
  readonly sendsNow: boolean;
  /** The webhooks that get the new address, too. */
  readonly others: readonly Subscription[];
}

const FIELDS = [
  ['url', 'address'],
  ['description', 'description'],
  ['trigger', 'event'],
  ['topic', 'topic'],
] as const;

export function EditWebhook(o: { readonly webhook: Subscription; readonly onClose: () => void }) {
  const { webhook } = o;
  // The page reads the webhook again while the form is open, and somebody else may have changed it.
  const [opened] = useState(webhook);
  const [url, setUrl] = useState(webhook.url);
  const [description, setDescription] = useState(webhook.description);
  const [pair, setPair] = useState({ topic: webhook.topic, trigger: webhook.trigger });
  const others = useSameAddress(webhook);
  const [forOthers, setForOthers] = useState<boolean>();
  // Those that fail with this address fail until they get the new one, too.
  const isForOthers = forOthers ?? others.some(isFailing);
  const moveOthers = useMoveOthers();
  const { backlog } = webhook;
  const isOtherUrl = url !== opened.url;
  const isMoved = backlog !== undefined && backlog.count > 0 && isOtherUrl;
  // What is saved, as it was when it was saved: the webhook may be read again before the response.
  const [saved, setSaved] = useState<Saved>({ text: '', sendsNow: false, others: [] });
  const retry = useWrite(WebhooksService.method.retryDeliveries, {});
  const { run, isPending, error } = useWrite(WebhooksService.method.updateSubscription, {
    done: saved.text,
    inline: true,
    onSuccess: () => {
      o.onClose();
      // Otherwise what failed before waits for its next attempt, which may be hours later.
      if (saved.sendsNow) retry.run({ subscriptionId: webhook.id });
      if (saved.others.length > 0) void moveOthers(saved.others, url);
    },
  });
  const submit = () => {
    const next = { ...pair, id: webhook.id, url, description: description.trim() };
    const { status } = webhook;
    const save = () =>
      run(change(opened, next), { ...change(next, opened), expected: { ...next, status } });
    // A repeat sends the same again, whatever the webhook is now.
    if (wasSent(error)) return save();
    const changed = changedFields(opened, next);
    if (changed === '') return o.onClose();
    const sendsNow = isMoved && isActive(webhook);
    const sent = sendsNow ? ` ${waitingText(backlog)} sent to the new address now.` : '';
    setSaved({
      text: `${webhookText(webhook, { word: 'Webhook' })}: ${changed} changed.${sent}`,
      sendsNow,
      others: isForOthers && isOtherUrl ? others : [],
    });
    save();
  };
  return (
    <FormModal
      title={`Edit webhook ${webhook.id}`}
      onClose={o.onClose}
      submit="Save"
      pending={isPending}
      error={error}
      fields={['url', 'description', 'topic', 'trigger']}
      onSubmit={submit}
    >
      {!isPending && !wasSent(error) && <ChangedSince opened={opened} now={webhook} />}
      {/* The dialog covers the warning of the page, which may say what the new address is. */}
      {isFailing(webhook) && <WhatFails failure={webhook.lastFailure} />}
      <UrlField value={url} onChange={setUrl} error={error} />
      {others.length > 0 && (
        <Checkbox
          checked={isForOthers}
          onChange={({ currentTarget }) => setForOthers(currentTarget.checked)}
          label={`Also change the address of ${count(others.length, 'other webhook', 'other webhooks')} with ${isOtherUrl ? 'the old' : 'this'} address`}
          description={namesOf(others)}
        />
      )}
      <DescriptionField value={description} onChange={setDescription} error={error} />
      <PairFields value={pair} onChange={setPair} error={error} />
      <EqualToChosen chosen={{ url, ...pair }} own={webhook.id} />
      <Text size="sm" c="dimmed">
        {isMoved
          ? `${waitingText(backlog)} sent to the new address ${isActive(webhook) ? 'when you save' : 'when you activate the webhook'}.`
          : 'Deliveries that wait go to the new address. A new event or topic applies to later events.'}
        {isMoved && isForOthers && others.length > 0 && ' What waits for the others is sent, too.'}
      </Text>
    </FormModal>
  );
}

function WhatFails({ failure }: { readonly failure: LastFailure | undefined }) {
  if (!failure) return null;
  return (
    <Text size="sm" component="div">
      The last attempt: <strong>{answerText(failure)}</strong>.
      <ResponseExcerpt text={failure.responseExcerpt} />
    </Text>
  );
}

function namesOf(webhooks: readonly Subscription[]): string {
  return webhooks
    .map((one) => webhookText(one, { word: 'Webhook', event: one.trigger }))
    .join(', ');
}

/** `3 deliveries that wait are` */
function waitingText({ count: waiting = 0, more = false }: Partial<Backlog> = {}): string {
  const text = count(waiting, 'delivery that waits is', 'deliveries that wait are');
  return more ? `More than ${text}` : text;
}

/** `address and topic`; empty when nothing is changed. */
function changedFields(webhook: Content, next: Content): string {
  return FIELDS.filter(([field]) => webhook[field] !== next[field])
    .map(([, name]) => name)
    .join(' and ');
}

/** The fields that differ. The others keep their stored values. Topic and event are one choice. */
function change(from: Content, { url, description, topic, trigger }: Content) {
  return {
    subscriptionId: from.id,
    ...(url !== from.url && { url }),
    ...(description !== from.description && { description }),
    ...((topic !== from.topic || trigger !== from.trigger) && { topic, trigger }),
  };
}

/** Says what somebody else changed while the form is open. */
function ChangedSince(o: { readonly opened: Content; readonly now: Content }) {
  const changed = FIELDS.filter(([field]) => o.opened[field] !== o.now[field]);
  if (changed.length === 0) return null;
  return (
    <Alert color="yellow" role="status" title="Somebody changed this webhook in the meantime">
      {changed.map(([field, name]) => (
        <div key={field}>
          The {name} is now “{o.now[field]}”.
        </div>
      ))}
      What you do not change here stays as it is now.
    </Alert>
  );
}

/**
 * Gives several webhooks another address, one after the other, and sends what waits to it at once. Each is a change of
 * its own, so some may fail: the message names them, and those that changed can be taken back.
 */
function useMoveOthers(): (webhooks: readonly Subscription[], url: string) => Promise<void> {
  const { updateSubscription, retryDeliveries } = WebhooksService.method;
  const update = useWrite(updateSubscription, {});
  const retry = useWrite(retryDeliveries, {});
  // What waits would otherwise wait for its next attempt, which may be hours later.
  const move = async (webhook: Subscription, url: string, from?: string) => {
    const { id: subscriptionId, topic, trigger, status, description } = webhook;
    const expected = from && { url: from, topic, trigger, status, description };
    await update.send({ subscriptionId, url, ...(expected && { expected }) });
    if (!isActive(webhook) || !webhook.backlog?.count) return;
    await retry.send({ subscriptionId }).catch(notifyFailure);
  };
  return async (webhooks, url) => {
    const moved: Subscription[] = [];
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
      for (const webhook of moved) await move(webhook, webhook.url, url).catch(throwUnlessGone);
      notifyDone('They have their former address again.');
    };
    const have = moved.length === 1 ? 'has' : 'have';
    notifyDone(`${webhooksText(moved)} ${have} the new address, too.`, takeBack);
  };
}
