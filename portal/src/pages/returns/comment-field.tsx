import { Textarea } from '@mantine/core';

/** A text of people for the timeline. */
export function CommentField(o: {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly required?: boolean;
  readonly description?: string;
}) {
  return (
    <Textarea
      label={o.required ? o.label : `${o.label} (optional)`}
      description={o.description}
      required={o.required ?? false}
      autosize
      minRows={2}
      maxRows={8}
      maxLength={2_000}
      value={o.value}
      onChange={({ currentTarget }) => o.onChange(currentTarget.value)}
      data-autofocus
    />
  );
}
