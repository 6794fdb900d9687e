import { Alert, Button, Group, Stack } from '@mantine/core';
import { type FormEvent, type ReactNode, useEffect, useRef } from 'react';
import { explain, wasSent } from '../../api/errors.ts';
import { isFormError } from '../../api/field-errors.ts';
import styles from './dialog.module.css';
import { Dialog } from './dialog.tsx';

/**
 * A form in a dialog, which stays until the answer. Errors about a field are shown at the field, others above the
 * buttons. After a try without an answer its fields stay as they were sent, so that a repeat is the same write.
 */
export function FormModal(o: {
  readonly title: string;
  readonly onClose: () => void;
  readonly onSubmit: () => void;
  readonly submit: string;
  /** The button that changes nothing; "Cancel" by default. */
  readonly keep?: string;
  readonly pending: boolean;
  readonly error: unknown;
  /** The fields that show their own errors. */
  readonly fields?: readonly string[];
  readonly danger?: boolean;
  readonly disabled?: boolean;
  readonly size?: 'lg';
  readonly children: ReactNode;
}) {
  const focused = useRef<Element>(null);
  // A field that is disabled loses the focus.
  useEffect(() => {
    if (!o.pending && focused.current instanceof HTMLElement) focused.current.focus();
  }, [o.pending]);
  const isOpen = wasSent(o.error);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    // A dialog is inside of the page's tree of React, even when it lies in another form.
    event.stopPropagation();
    focused.current = document.activeElement;
    o.onSubmit();
  };
  return (
    <Dialog title={o.title} onClose={o.onClose} busy={o.pending} {...(o.size && { size: o.size })}>
      <form onSubmit={submit}>
        <Stack gap="md">
          <fieldset className={styles.fields} disabled={o.pending || isOpen}>
            <Stack gap="md">{o.children}</Stack>
          </fieldset>
          {!o.pending && isFormError(o.error, o.fields ?? []) && (
            <Alert color={isOpen ? 'yellow' : 'red'} role="alert" title={explain(o.error).title}>
              {explain(o.error).text}
            </Alert>
          )}
          <Group justify="flex-end">
            <Button variant="default" disabled={o.pending} onClick={o.onClose} data-autofocus>
              {isOpen ? 'Close' : (o.keep ?? 'Cancel')}
            </Button>
            <Button
              type="submit"
              loading={o.pending}
              disabled={(o.disabled ?? false) && !isOpen}
              {...(o.danger && { color: 'red.8' })}
            >
              {isOpen ? 'Try again' : o.submit}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
