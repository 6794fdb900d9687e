import { Textarea } from '@mantine/core';
import { tooLong } from '../../parts/too-long.ts';

/** The most characters of a comment in the timeline. */
const COMMENT_MAX = 4_000;

/** A text of people for the timeline. */
export function CommentField(o: {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly required?: boolean;
  readonly description?: string;
  /** The most characters; by default those of a comment. */
  readonly max?: number;
}) {
  return (
    <Textarea
      label={o.required ? o.label : `${o.label} (optional)`}
      description={o.description}
      required={o.required ?? false}
      autosize
      minRows={2}
      maxRows={8}
      error={tooLong(o.value, o.max ?? COMMENT_MAX)}
      value={o.value}
      onChange={({ currentTarget }) => o.onChange(currentTarget.value)}
      data-autofocus
    />
  );
}
