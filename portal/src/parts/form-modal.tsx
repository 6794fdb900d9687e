import { Alert, Button, Group, Stack } from '@mantine/core';
import type { FormEvent, ReactNode } from 'react';
import { explain } from '../api/errors.ts';
import { isFormError } from '../api/field-errors.ts';
import { Dialog } from './dialog.tsx';

/** A form in a dialog. Errors about a field are shown at the field, others above the buttons. */
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
  const submit = (event: FormEvent) => {
    event.preventDefault();
    // A dialog is inside of the page's tree of React, even when it lies in another form.
    event.stopPropagation();
    o.onSubmit();
  };
  return (
    <Dialog title={o.title} onClose={o.onClose} {...(o.size && { size: o.size })}>
      <form onSubmit={submit}>
        <Stack gap="md">
          {o.children}
          {isFormError(o.error, o.fields ?? []) && (
            <Alert color="red" role="alert" title={explain(o.error).title}>
              {explain(o.error).text}
            </Alert>
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={o.onClose}>
              {o.keep ?? 'Cancel'}
            </Button>
            <Button
              type="submit"
              loading={o.pending}
              disabled={o.disabled ?? false}
              {...(o.danger && { color: 'red.8' })}
            >
              {o.submit}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
