import { Button } from '@mantine/core';

/**
 * A small button in a row of a table.
 *
 * @param o.label its whole name for screen readers, with the row: `Revoke the ERP key`.
 */
export function RowButton(o: {
  readonly text: string;
  readonly label: string;
  readonly onClick: () => void;
  readonly isPending?: boolean;
  /** Says in some words what it does. */
  readonly hint?: string;
  /** It ends or removes something. */
  readonly danger?: boolean;
}) {
  return (
    <Button
      size="compact-sm"
      variant="default"
      loading={o.isPending ?? false}
      onClick={o.onClick}
      aria-label={o.label}
      title={o.hint}
      {...(o.danger && { c: 'var(--mantine-color-error)' })}
    >
      {o.text}
    </Button>
  );
}
