import { Button, Group, Text } from '@mantine/core';
import { useSyncExternalStore } from 'react';
import { closeQuestion, currentQuestion, onQuestion } from './confirm.ts';
import { Dialog } from './dialog.tsx';

/** Shows the question that is asked. */
export function Questions() {
  const question = useSyncExternalStore(onQuestion, currentQuestion);
  if (!question) return null;
  return (
    <Dialog title={question.title} onClose={closeQuestion}>
      <Text size="sm" component="div" mb="lg">
        {question.text}
      </Text>
      <Group justify="flex-end">
        <Button variant="default" onClick={closeQuestion} data-autofocus>
          Keep as it is
        </Button>
        <Button
          {...(question.danger && { color: 'red.8' })}
          onClick={() => {
            closeQuestion();
            question.onConfirm();
          }}
        >
          {question.action}
        </Button>
      </Group>
    </Dialog>
  );
}
