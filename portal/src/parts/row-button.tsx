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
}) {
  return (
    <Button
      size="compact-sm"
      variant="default"
      loading={o.isPending ?? false}
      onClick={o.onClick}
      aria-label={o.label}
    >
      {o.text}
    </Button>
  );
}
