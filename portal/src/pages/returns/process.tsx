import { Alert, Text } from '@mantine/core';
import { useState } from 'react';
import {
  DispositionOutcome,
  LabelStatus,
  LabelStatusSchema,
  type LineItem,
  type Return,
  ReturnMethod,
} from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { type PaidPart, ReturnsService } from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { FormModal } from '../../parts/dialog/form-modal.tsx';
import { count, inWords, wordOf } from '../../words.ts';
import { type ReturnDialogProps, refusalOf } from './check.ts';
import { effectsOf, processRequest } from './effects.ts';

export function Process({ about, check, onClose }: ReturnDialogProps) {
  const [refusal, setRefusal] = useState<string>();
  const { run, isPending, error } = useWrite(ReturnsService.method.processReturn, {
    inline: true,
    onSuccess: ({ result }) => {
      // The page itself shows that the return is being processed, and then what was made.
      if (result.case === 'queued' || result.case === 'alreadyQueued') onClose();
      else setRefusal(refusalOf(result));
    },
  });
  return (
    <FormModal
      title={`Process the return of ${about.order?.name ?? ''}?`}
      onClose={onClose}
      submit="Process the return"
      pending={isPending}
      error={error}
      disabled={refusal !== undefined}
      onSubmit={() => run(processRequest(about))}
    >
      <NotBack about={about} />
      {check.paidPart ? <Part of={check.paidPart} about={about} /> : <Missing about={about} />}
      <Text size="sm">This will happen:</Text>
      <Bullets items={effectsOf({ about, check }).map((text) => [text, text])} />
      <Text size="sm">
        {needsDispositions(about) && 'Items without a disposition count as “Back to stock”. '}
        You can still record what becomes of the goods afterwards
        {needsDispositions(about) && ', but that changes no stock'}.
      </Text>
      {refusal && (
        <Alert color="red" role="alert" title="Nothing was processed">
          {refusal}
        </Alert>
      )}
    </FormModal>
  );
}

/** Whether processing decides what becomes of some goods, because nobody has. The shopper may keep them, too. */
function needsDispositions({ lineItems, returnMethod }: Return): boolean {
  return (
    returnMethod !== ReturnMethod.KEEP_ITEM && lineItems.some(({ disposition }) => !disposition)
  );
}

/** Says that processing pays for goods that did not come, which does not prevent the processing. */
function Missing({ about }: { readonly about: Return }) {
  const missing = about.lineItems.filter(
    ({ disposition }) => disposition?.outcome === DispositionOutcome.MISSING,
  );
  if (missing.length === 0) return null;
  return (
    <Alert color="yellow" title="Goods are missing">
      {missing.map(({ title }) => `“${title}”`).join(', ')}: recorded as missing, but the whole
      return is paid. If it must not be, close this dialog and put the return into review.
    </Alert>
  );
}

/** Says of which line items not all units are paid, because the policy pays what arrived. */
function Part(o: { readonly of: PaidPart; readonly about: Return }) {
  const less = o.about.lineItems.flatMap(({ lineItemId, quantity, title }) => {
    const paid = o.of.units[String(lineItemId)] ?? quantity;
    const text = `“${title}”: ${paid} of ${count(quantity, 'unit')}`;
    return paid < quantity ? [[text, text] as const] : [];
  });
  return (
    <Alert color="yellow" title="Your policy pays only what arrived or was accepted">
      <Bullets items={less} />
      To pay for other units, too, close this dialog and set their disposition.
    </Alert>
  );
}

/** Says that the goods are not back, which does not prevent the processing. */
function NotBack({ about }: { readonly about: Return }) {
  const { labels, lineItems: lines } = about;
  const parcelsOf = ({ lineItemId: id }: LineItem) =>
    labels.filter(({ lineItemIds }) => lineItemIds.length === 0 || lineItemIds.includes(id));
  const awaited = lines.filter(
    (line) =>
      !line.returnedAt && !parcelsOf(line).some(({ status }) => status === LabelStatus.DELIVERED),
  );
  const hasParcel = labels.length > 0 || about.returnMethod === ReturnMethod.MAIL;
  if (!hasParcel || awaited.length === 0) return null;
  const stateOf = (line: LineItem) => {
    const newest = parcelsOf(line).at(-1);
    return inWords(newest ? wordOf(LabelStatusSchema, newest.status) : 'no label');
  };
  const states = new Set(awaited.map(stateOf));
  const [state = ''] = states;
  if (awaited.length === lines.length && states.size === 1) {
    return (
      <Alert color="yellow" title="The parcel has not arrived">
        {labels.length === 0 ? 'It has no label.' : `Its state is “${state}”.`}
      </Alert>
    );
  }
  return (
    <Alert color="yellow" title="Not all goods have arrived">
      {awaited.map((line) => `“${line.title}”: ${stateOf(line)}`).join(', ')}
    </Alert>
  );
}
