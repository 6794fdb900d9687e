import { useQuery } from '@connectrpc/connect-query';
import { NativeSelect, Text } from '@mantine/core';
import { useState } from 'react';
import { ReturnsService } from '../../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { fieldError } from '../../api/field-errors.ts';
import { useWrite } from '../../api/use-write.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { ErrorState } from '../../parts/states.tsx';
import { inWords } from '../../words.ts';
import { CommentField } from './comment-field.tsx';
import type { ReturnDialogProps } from './dialog-props.ts';

export function ReportFraud({ returnId, onClose }: ReturnDialogProps) {
  const query = useQuery(
    ReturnsService.method.listFraudCategories,
    {},
    { staleTime: Number.POSITIVE_INFINITY },
  );
  const [chosen, setChosen] = useState('');
  const [comment, setComment] = useState('');
  const { run, isPending, error } = useWrite(ReturnsService.method.createFraudReport, {
    done: 'The return is reported.',
    inline: true,
    onSuccess: onClose,
  });
  const { data } = query;
  const categories = data?.categories ?? [];
  const category = categories.find(({ name }) => name === chosen);
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
      onSubmit={() => category && run({ returnId, category: category.name, comment })}
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
          ...categories.map(({ name }) => ({ value: name, label: inWords(name) })),
        ]}
        value={chosen}
        required
        description={category?.description ?? ' '}
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
