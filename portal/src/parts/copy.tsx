import { Button, Code, CopyButton, Group } from '@mantine/core';

interface CopyProps {
  readonly value: string;
  /** Names the text for screen readers. */
  readonly label: string;
}

/** A text with a button that copies it. */
export function Copyable({ value, label }: CopyProps) {
  return (
    <Group gap="xs" wrap="nowrap" align="center" miw={0}>
      <Code style={{ overflowWrap: 'anywhere' }}>{value}</Code>
      <CopyText value={value} label={label} />
    </Group>
  );
}

/** A button that copies a text. */
export function CopyText({ value, label }: CopyProps) {
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Button
          size="compact-xs"
          variant="default"
          onClick={copy}
          aria-label={copied ? `Copied: ${label}` : `Copy ${label}`}
          style={{ flex: 'none' }}
        >
          {copied ? 'Copied' : 'Copy'}
        </Button>
      )}
    </CopyButton>
  );
}
