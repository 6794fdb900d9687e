import { Alert, Button, Group, Text } from '@mantine/core';
import { useSyncExternalStore } from 'react';
import styles from './notices.module.css';
import { closeNotice, currentNotices, onNotices } from './notify.ts';

/** The messages about actions, at the lower end of the page. Screen readers read each when it appears. */
export function Notices() {
  const notices = useSyncExternalStore(onNotices, currentNotices);
  return (
    <div className={styles.list} role="status" aria-live="polite">
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
            {undo && (
              <Button
                size="compact-sm"
                variant="default"
                onClick={() => {
                  closeNotice(id);
                  undo();
                }}
              >
                Undo
              </Button>
            )}
          </Group>
        </Alert>
      ))}
    </div>
  );
}
