import { useQuery } from '@connectrpc/connect-query';
import { Alert, NativeSelect, Text, Textarea } from '@mantine/core';
import { useState } from 'react';
import { FraudService } from '../../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { ReturnState } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  InstantRefundState,
  ReturnsService,
} from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { fieldError } from '../../api/field-errors.ts';
import { useWrite } from '../../api/use-write.ts';
import { FormModal } from '../../parts/dialog/form-modal.tsx';
import { ErrorState } from '../../parts/states.tsx';
import { tooLong } from '../../parts/text/too-long.ts';
import { inWords, moneyText } from '../../words.ts';
import type { Checked, ReturnDialogProps } from './check.ts';

export function AddNote({ about: { id: returnId }, onClose }: ReturnDialogProps) {
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

export function Flag({ about: { id: returnId }, onClose }: ReturnDialogProps) {
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

export function Unflag({ about: { id: returnId }, onClose }: ReturnDialogProps) {
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

/** Cancels the return. One in review is declined: the same, with a reason. */
export function Cancel({ about, check, onClose }: ReturnDialogProps) {
  const [reason, setReason] = useState('');
  // The dialog stays as it is when somebody ends the review.
  const [isDeclined] = useState(about.state === ReturnState.REVIEW);
  const verb = isDeclined ? 'Decline' : 'Cancel';
  const { run, isPending, error } = useWrite(ReturnsService.method.cancelReturn, {
    done: check.cancelsOrder
      ? 'The exchange order is being cancelled, and the return after it.'
      : `The return is ${isDeclined ? 'declined' : 'cancelled'}.`,
    inline: true,
    onSuccess: onClose,
  });
  return (
    <FormModal
      title={`${verb} the return of ${about.order?.name ?? ''}?`}
      onClose={onClose}
      submit={`${verb} the return`}
      keep="Keep the return"
      danger
      disabled={check.cancelRefused !== ''}
      pending={isPending}
      error={error}
      onSubmit={() => run({ returnId: about.id, reason })}
    >
      {check.cancelRefused === '' ? (
        <CancelEffects check={check} />
      ) : (
        <Alert color="yellow" title="It cannot be cancelled now">
          {check.cancelRefused}
        </Alert>
      )}
      <CommentField
        label="Reason for the timeline"
        description={isDeclined ? 'Write it so that the shopper may read it.' : undefined}
        required={isDeclined}
        value={reason}
        onChange={setReason}
      />
    </FormModal>
  );
}

/** What cancelling does, in plain words. */
function CancelEffects({ check }: Pick<Checked, 'check'>) {
  const paid = check.instantRefunds.filter(({ state }) => state !== InstantRefundState.CHARGED);
  return (
    <>
      {paid.map(({ id, money }) => (
        <Alert
          key={String(id)}
          color="yellow"
          title="The shopper was paid before the goods arrived"
        >
          {money && moneyText(money.value, money.currency)} was paid as an instant refund. It is not
          taken back.
        </Alert>
      ))}
      <Text size="sm">
        {check.cancelsOrder && 'The exchange order is cancelled first. '}
        The shopper gets nothing {paid.length > 0 && 'else '}for this return, and it cannot be
        processed any more. Webhooks send <code>return.updated</code>. This cannot be undone.
      </Text>
    </>
  );
}

export function ReportFraud({ about: { id: returnId }, onClose }: ReturnDialogProps) {
  const query = useQuery(
    FraudService.method.listCategories,
    {},
    { staleTime: Number.POSITIVE_INFINITY },
  );
  const [chosen, setChosen] = useState('');
  const [comment, setComment] = useState('');
  const { run, isPending, error } = useWrite(FraudService.method.createReport, {
    done: 'The return is reported.',
    inline: true,
    onSuccess: onClose,
  });
  const { data } = query;
  const categories = data?.categories ?? [];
  const category = categories.find(({ id }) => id === chosen);
  return (
    <FormModal
      title="Report this return as fraud?"
      onClose={onClose}
      submit="Report as fraud"
      danger
      pending={isPending}
      error={error}
      fields={['category']}
      disabled={!category}
      onSubmit={() => category && run({ returnId, category: category.id, comment })}
    >
      <Text size="sm">
        A return has one report. It cannot be changed or removed. The state of the return stays as
        it is.
      </Text>
      {query.error && !data && (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      )}
      <NativeSelect
        label="What happened"
        data={[
          { value: '', label: 'Choose', disabled: true },
          ...categories.map(({ id }) => ({ value: id, label: inWords(id) })),
        ]}
        value={chosen}
        required
        description={category?.title ?? ' '}
        inputWrapperOrder={['label', 'input', 'description', 'error']}
        error={fieldError(error, 'category')}
        onChange={({ currentTarget }) => setChosen(currentTarget.value)}
        data-autofocus
      />
      <CommentField
        label="Comment"
        description="At most 512 characters."
        max={512}
        required={category?.commentRequired ?? false}
        value={comment}
        onChange={setComment}
      />
    </FormModal>
  );
}

/** The most characters of a comment in the timeline. */
const COMMENT_MAX = 4_000;

/** A text of people for the timeline. */
function CommentField(o: {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly required?: boolean;
  readonly description?: string | undefined;
  /** The most characters; by default those of a comment. */
  readonly max?: number;
}) {
  return (
    <Textarea
      label={o.required ? o.label : `${o.label} (optional)`}
      description={o.description}
      required={o.required ?? false}
      autosize
      minRows={2}
      maxRows={8}
      error={tooLong(o.value, o.max ?? COMMENT_MAX)}
      value={o.value}
      onChange={({ currentTarget }) => o.onChange(currentTarget.value)}
      data-autofocus
    />
  );
}
