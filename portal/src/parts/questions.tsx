import { Text } from '@mantine/core';
import { useState, useSyncExternalStore } from 'react';
import { closeQuestion, currentQuestion, onQuestion, type Question } from './confirm.ts';
import { FormModal } from './form-modal.tsx';

/** Shows the question that is asked. */
export function Questions() {
  const question = useSyncExternalStore(onQuestion, currentQuestion);
  return question ? <Asked question={question} /> : null;
}

function Asked({ question }: { readonly question: Question }) {
  const [isPending, setPending] = useState(false);
  const [error, setError] = useState<unknown>();
  const act = () => {
    setPending(true);
    setError(undefined);
    question
      .onConfirm()
      .then(closeQuestion, setError)
      .finally(() => setPending(false));
  };
  return (
    <FormModal
      title={question.title}
      onClose={closeQuestion}
      onSubmit={act}
      submit={question.action}
      keep="Keep as it is"
      pending={isPending}
      error={error}
      danger={question.danger ?? false}
    >
      <Text size="sm" component="div">
        {question.text}
      </Text>
    </FormModal>
  );
}
