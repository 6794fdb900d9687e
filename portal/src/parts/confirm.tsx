import { Button, Group, Text } from '@mantine/core';
import { type ReactNode, useSyncExternalStore } from 'react';
import { Dialog } from './dialog.tsx';

/** A question before something that cannot be undone. It says in plain words what will happen. */
export interface Question {
  readonly title: string;
  readonly text: ReactNode;
  /** The words of the button: the action itself, never "OK". */
  readonly action: string;
  readonly danger?: boolean;
  readonly onConfirm: () => void;
}

let asked: Question | undefined;
const listeners = new Set<() => void>();

/** Asks the user; `Questions` shows it. */
export function confirm(question: Question): void {
  change(question);
}

/** Shows the question that is asked. */
export function Questions() {
  const question = useSyncExternalStore(onChange, () => asked);
  if (!question) return null;
  const close = () => change(undefined);
  return (
    <Dialog title={question.title} onClose={close}>
      <Text size="sm" component="div" mb="lg">
        {question.text}
      </Text>
      <Group justify="flex-end">
        <Button variant="default" onClick={close} data-autofocus>
          Keep as it is
        </Button>
        <Button
          {...(question.danger && { color: 'red.8' })}
          onClick={() => {
            close();
            question.onConfirm();
          }}
        >
          {question.action}
        </Button>
      </Group>
    </Dialog>
  );
}

function onChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function change(next: Question | undefined): void {
  asked = next;
  for (const listener of listeners) listener();
}
