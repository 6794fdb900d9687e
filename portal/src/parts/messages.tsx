import { Alert, Button, Group, Text } from '@mantine/core';
import { useState, useSyncExternalStore } from 'react';
import { isOffline } from '../api/network.ts';
import { closeQuestion, currentQuestion, onQuestion, type Question } from './dialog/confirm.ts';
import { FormModal } from './dialog/form-modal.tsx';
import styles from './messages.module.css';
import { closeNotice, currentNotices, keepNotice, notifyFailure, onNotices } from './notify.ts';

/** What the page says and asks outside of its parts. */
export function Messages() {
  const question = useSyncExternalStore(onQuestion, currentQuestion);
  return (
    <>
      {question && <Asked question={question} />}
      <Notices />
    </>
  );
}

/** The messages about actions and about the network, at the lower end of the page. Screen readers read each when it appears. */
function Notices() {
  const hasNoNetwork = useSyncExternalStore(onNetworkChange, isOffline);
  const notices = useSyncExternalStore(onNotices, currentNotices);
  return (
    <div className={styles.list} role="status" aria-live="polite">
      {hasNoNetwork && (
        <Alert variant="white" className={styles.notice ?? ''} color="yellow" title="No network">
          <Text size="sm" c="var(--mantine-color-text)">
            Your browser is offline. What you see may be out of date, and changes may not be sent.
          </Text>
        </Alert>
      )}
      {notices.map(({ id, title, text, isFailure, undo }) => (
        <Alert
          key={id}
          variant="white"
          className={styles.notice ?? ''}
          color={isFailure ? 'red' : 'green'}
          title={title}
          withCloseButton
          closeButtonLabel="Close the message"
          onClose={() => closeNotice(id)}
        >
          <Group gap="sm">
            <Text size="sm" c="var(--mantine-color-text)">
              {text}
            </Text>
            {undo && <Undo id={id} undo={undo} />}
          </Group>
        </Alert>
      ))}
    </div>
  );
}

function onNetworkChange(listener: () => void): () => void {
  window.addEventListener('online', listener);
  window.addEventListener('offline', listener);
  return () => {
    window.removeEventListener('online', listener);
    window.removeEventListener('offline', listener);
  };
}

/** Stays until the answer, so that the user can try again. */
function Undo(o: { readonly id: number; readonly undo: () => Promise<void> }) {
  const [isPending, setPending] = useState(false);
  const take = () => {
    setPending(true);
    keepNotice(o.id);
    o.undo()
      .then(() => closeNotice(o.id), notifyFailure)
      .finally(() => setPending(false));
  };
  return (
    <Button size="compact-sm" variant="default" loading={isPending} onClick={take}>
      Undo
    </Button>
  );
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
