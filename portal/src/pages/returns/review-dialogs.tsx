import { Alert, Text, Textarea } from '@mantine/core';
import { useState } from 'react';
import { ReturnsService } from '../../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { moneyText } from '../../words.ts';
import { CommentField } from './comment-field.tsx';
import type { ReturnDialogProps } from './dialog-props.ts';

export function AddNote({ returnId, onClose }: ReturnDialogProps) {
  const [text, setText] = useState('');
  const { run, isPending, error } = useWrite(ReturnsService.method.addNote, {
    done: 'The note is in the timeline.',
    inline: true,
    onSuccess: onClose,
  });
  return (
    <FormModal
      title="Add a note"
      onClose={onClose}
      submit="Add the note"
      pending={isPending}
      error={error}
      onSubmit={() => run({ returnId, text })}
    >
      <CommentField
        label="Note"
        description="For your team. The shopper does not see it."
        max={65_535}
        required
        value={text}
        onChange={setText}
      />
    </FormModal>
  );
}

export function Flag({ returnId, onClose }: ReturnDialogProps) {
  const [reasons, setReasons] = useState('');
  const [comment, setComment] = useState('');
  const { run, isPending, error } = useWrite(ReturnsService.method.flagReturn, {
    done: 'The return is in review.',
    inline: true,
    onSuccess: onClose,
  });
  const lines = reasons
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  return (
    <FormModal
      title="Put this return into review?"
      onClose={onClose}
      submit="Put into review"
      pending={isPending}
      error={error}
      onSubmit={() => run({ returnId, reasons: lines, comment })}
    >
      <Text size="sm">
        The return cannot be processed until somebody ends the review. Nothing else changes.
      </Text>
      <Textarea
        label="Why must somebody look at it?"
        description="One reason on each line."
        required
        autosize
        minRows={2}
        maxRows={6}
        value={reasons}
        onChange={({ currentTarget }) => setReasons(currentTarget.value)}
        data-autofocus
      />
      <CommentField label="Comment for the timeline" value={comment} onChange={setComment} />
    </FormModal>
  );
}

export function Unflag({ returnId, onClose }: ReturnDialogProps) {
  const [comment, setComment] = useState('');
  const { run, isPending, error } = useWrite(ReturnsService.method.unflagReturn, {
    done: 'The review has ended. The return is open.',
    inline: true,
    onSuccess: onClose,
  });
  return (
    <FormModal
      title="End the review?"
      onClose={onClose}
      submit="End the review"
      pending={isPending}
      error={error}
      onSubmit={() => run({ returnId, comment })}
    >
      <Text size="sm">
        The return will be open again. No money moves yet: for that, process the return afterwards.
        The timeline keeps the reasons of the review.
      </Text>
      <CommentField label="Comment for the timeline" value={comment} onChange={setComment} />
    </FormModal>
  );
}

export function Cancel({ about, returnId, onClose }: ReturnDialogProps) {
  const [reason, setReason] = useState('');
  const { run, isPending, error } = useWrite(ReturnsService.method.cancelReturn, {
    done: about.cancelsOrder
      ? 'The exchange order is being cancelled, and the return after it.'
      : 'The return is cancelled.',
    inline: true,
    onSuccess: onClose,
  });
  return (
    <FormModal
      title={`Cancel the return of ${about.summary?.orderName ?? ''}?`}
      onClose={onClose}
      submit="Cancel the return"
      keep="Keep the return"
      danger
      disabled={about.cancelRefused !== ''}
      pending={isPending}
      error={error}
      onSubmit={() => run({ returnId, reason })}
    >
      {about.cancelRefused === '' ? (
        <CancelEffects about={about} />
      ) : (
        <Alert color="yellow" title="It cannot be cancelled now">
          {about.cancelRefused}
        </Alert>
      )}
      <CommentField label="Reason for the timeline" value={reason} onChange={setReason} />
    </FormModal>
  );
}

/** What cancelling does, in plain words. */
function CancelEffects({ about }: Pick<ReturnDialogProps, 'about'>) {
  const paid = about.instantRefunds.filter(({ state }) => state !== 'charged');
  return (
    <>
      {paid.map(({ id, money }) => (
        <Alert key={id} color="yellow" title="The shopper was paid before the goods arrived">
          {money && moneyText(money.value, money.currency)} was paid as an instant refund.
          Cancelling the return does not take it back.
        </Alert>
      ))}
      <Text size="sm">
        {about.cancelsOrder && 'The exchange order is cancelled first. '}
        The shopper gets nothing {paid.length > 0 && 'else '}for this return, and it cannot be
        processed any more. Webhooks send <code>return.updated</code>. This cannot be undone.
      </Text>
    </>
  );
}
